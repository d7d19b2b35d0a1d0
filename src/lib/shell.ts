/** Words as a shell reads them, for commands that people are told to type. Nothing here is ever given to a shell. */

export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export function shellLine(words: readonly string[]): string {
  return words.map(shellWord).join(" ");
}
