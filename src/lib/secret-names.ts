/**
 * Which names mean a secret: of variables, options, fields and elements. One set of rules, in any case. A name that may
 * mean a secret counts as one.
 */

/**
 * A word that marks a name as secret, even with a number after it (`PASSWORD2`) or inside a longer word
 * (`MYSECRETVALUE`).
 */
const SECRET_WORD =
  /^(?:(?:keys?|auth|oauth|pat|pass|passphrase|pass(?:code|key)s?|creds?|cookies?|jwt|bearer|authorization|[th]?otpseeds?|dsn|pw)\d*|\w*(?:secret|passw(?:or)?d|passphrase|credential)\w*|\w*token(?:\d*|value)|\w*(?:api|access|priv(?:ate)?|auth|signing|encryption|master|deploy|ssh|gpg|rsa)keys?\d*|(?:ssh|db|sql|smtp|mail|ftp|user|root|admin|login)(?:pass|pwd)\d*)$/i;
/** Ordinary alone (`PWD` is a directory), a secret behind another word and as an option: `DB_PWD`, `--pwd`. */
const SHORT_WORD = /^(?:pwd|sk|sas|mnemonic)\d*$/i;
/** A secret only of one-time passwords: `TOTP_SEED`, but not `RANDOM_SEED`. */
const SEED_WORD = /^seeds?\d*$/i;
const OTP_WORD = /^[th]?otp$/i;
/** Run together in capitals: `MYSQLPASS`, but not `COMPASS`, `LOWPASS` and `OLDPWD`. */
const CAPITAL_PASS =
  /^(?!(?:EN)?COMPASS|(?:BY|OVER|UNDER|TRES|SUR|LOW|HIGH|BAND|ALL|MULTI|SINGLE|FIRST)PASS|OLDPWD)[A-Z]+(?:PASS|PWD|CREDS)\d*$/;
/**
 * Names of several words: the address of a web hook or a connection string gives access to a service, a seed phrase to a
 * wallet.
 */
const PHRASE =
  /(?:^|_)web_?hooks?_?(?:url|uri|endpoint)s?\d*$|_web_?hooks?\d*$|(?:^|_)conn(?:ection)?_?str(?:ing)?s?\d*$|(?:^|_)seed_?phrases?\d*$|vault_?role_?id$|approle_?(?:role_?)?id$/i;
/** Tokens in the plural are usually counted; these are secrets. */
const TOKENS = /(?:api|auth|access|refresh|bearer)[-_]?tokens/i;
/**
 * A word after the secret word that makes the name a setting about secrets: `max_token_count`, `SSH_AUTH_SOCK`,
 * `TOKEN_FILE`.
 */
const ABOUT =
  /^(?:limits?|count|budget|usage|size|window|ttl|timeout|expiry|file|path|dir|sock|socket|var|env|helper|mode|type|method|provider|store|backend|status)$/i;

/**
 * Whether a variable, option or field with this name holds a secret. `API_KEY` and `authToken` do, `KEYBOARD` and
 * `max_tokens` do not.
 */
export function isSecretName(name: string): boolean {
  if (name.length > 256) return false;
  const spaced = name.replace(/([a-z0-9])([A-Z])/g, "$1 $2");
  if (!MAY_NAME_SECRET.test(spaced)) return false;
  if (TOKENS.test(name)) return true;
  const words = spaced.split(/[^A-Za-z0-9]+/).filter((word) => word !== "");
  if (PHRASE.test(words.join("_"))) return true;
  const last = words.findLastIndex(isSecretWord);
  // `env_key` holds the name of a variable.
  return last !== -1 && !ABOUT.test(words[last + 1] ?? "") && !/^env[-_ ]?key$/i.test(name);
}

function isSecretWord(word: string, at: number, words: readonly string[]): boolean {
  if (SECRET_WORD.test(word) || CAPITAL_PASS.test(word)) return true;
  if (SEED_WORD.test(word)) return OTP_WORD.test(words[at - 1] ?? "");
  return at > 0 && SHORT_WORD.test(word);
}

/** Whether a text may hold a secret's name at all: most texts do not. */
export const MAY_NAME_SECRET =
  /key|token|secret|pass|cred|auth|cookie|bearer|jwt|pat|pw|hook|conn|role|mnemonic|seed|dsn|(?<![a-z])(?:sk|sas|sig)|signature/i;

/** Whether the value after this option is a secret, as an argument: `--api-key`, `--pwd`, `-dsn`. */
export function isSecretOption(option: string): boolean {
  if (!/^--?[a-z]/i.test(option)) return false;
  const name = option.replace(/^--?/, "");
  return isSecretName(name) || SHORT_WORD.test(name);
}

/** The same in text, where `key` and similar words with one dash, or none, are ordinary. */
export function namesSecret(dashes: string, name: string): boolean {
  if (dashes === "--") return isSecretOption(`--${name}`);
  return !/^(?:keys?|auth|pass|pat)\d*$/i.test(name) && isSecretName(name);
}

/** `--model` and `-x`, which follow an option without a value. A secret may begin with a dash as well. */
export function isPlainOption(word: string): boolean {
  return /^-(?:[A-Za-z]|-?[a-z]+(?:-[a-z]+){0,8})(?:=|$)/.test(word);
}
