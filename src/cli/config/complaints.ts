/** Every complaint about a config file, with its place. */
import { parseConfig } from "../../core/config.ts";
import { Fault } from "../../core/faults.ts";
import { readConfigText } from "../../state/config-text.ts";
import { placeOfKey } from "./layout.ts";

export type ConfigLevel = "user" | "project";

export interface Complaint {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly reason: string;
}

/** In the order of the file. */
export async function complaintsAbout(
  text: string,
  file: string,
  level: ConfigLevel,
): Promise<readonly Complaint[]> {
  const faults: Fault[] = [];
  parseConfig(text, file, level, (fault) => void faults.push(fault));
  const complaints = await Promise.all(faults.map((fault) => placed(fault, text, file)));
  return complaints.toSorted((one, other) => one.line - other.line || one.column - other.column);
}

/** The same for the file on disk, which may be unreadable. Missing: no complaint. */
export async function complaintsOfFile(file: string, level: ConfigLevel): Promise<readonly Complaint[]> {
  try {
    const text = readConfigText(file);
    return text === null ? [] : await complaintsAbout(text, file, level);
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== "config_invalid") throw error;
    return [{ file, line: 1, column: 1, reason: error.message }];
  }
}

async function placed({ message, facts }: Fault, text: string, file: string): Promise<Complaint> {
  const { line, column, key } = facts;
  const reason = message
    .replace(`${file}, line ${String(line)}, column ${String(column)}: `, "")
    .replace(`${file}: `, "")
    .replace(`${file} `, "This file ");
  if (typeof line === "number" && typeof column === "number") return { file, line, column, reason };
  const at = typeof key === "string" ? await placeOfKey(text, key.split(".")) : { line: 1, column: 1 };
  return { file, ...at, reason };
}
