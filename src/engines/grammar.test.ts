import { array, assert, constantFrom, property } from "fast-check";
import { describe, expect, test } from "vitest";
import { Fault } from "../core/faults.ts";
import {
  assertComplete,
  assertNoPrompt,
  describe as texts,
  type Grammar,
  has,
  lastWins,
  parseArgs,
  type Parsed,
  render,
  valueOf,
} from "./grammar.ts";
import { keepNative, override, splitForResume } from "./attempt-options.ts";

const RANKS = ["low", "mid", "high"];
const rank = (value: string | null) => {
  const at = RANKS.indexOf(value ?? "");
  return at === -1 ? null : at;
};

const grammar: Grammar = {
  commands: { "": ["exec|e", "resume"], exec: ["resume"] },
  options: [
    { names: ["--model", "-m"], takes: "value" },
    {
      names: ["--set", "-c"],
      takes: "value",
      repeatable: true,
      guard: {
        of: (text) =>
          text?.startsWith("rank=") === true ? { scale: "rank", rank: () => rank(text.slice(5)) } : null,
      },
    },
    { names: ["--files", "-f"], takes: "variadic", repeatable: true },
    { names: ["--debug", "-d"], takes: "optional" },
    { names: ["--print", "-p"], takes: "none", bears: "output" },
    { names: ["--quiet", "-q"], takes: "none" },
    { names: ["--message"], takes: "value", bears: "prompt" },
    { names: ["--session"], takes: "value", bears: "session" },
    { names: ["--image", "-i"], takes: "value", bears: "once" },
    { names: ["--dir"], takes: "value", place: "before", repeatable: true, guard: "grant" },
    { names: ["--approve"], takes: "value", place: "root", guard: "grant" },
    { names: ["--deny"], takes: "value", repeatable: true, guard: "limit" },
    { names: ["--strict"], takes: "none", guard: "limit" },
    { names: ["--rank"], takes: "value", guard: { scale: "rank", rank } },
    { names: ["--wide"], takes: "none", guard: { scale: "rank", rank: () => 2 } },
    { names: ["--plain"], takes: "none", only: "headless" },
    { names: ["--mouse"], takes: "none", only: "ui" },
    { names: ["--rules"], takes: "none", only: "headless", guard: "grant" },
    { names: ["--listen"], takes: "none", only: "ui", guard: "extra" },
    { names: ["--gone"], takes: "none", refuse: "nothing was saved" },
  ],
};

const parse = (line: string, noPrompt = false) =>
  parseArgs(grammar, line.split(" ").filter(Boolean), noPrompt);

describe("parseArgs", () => {
  /** line → sub-commands | options with their values | words */
  const cases: Record<string, string> = {
    "": "||",
    hello: "||hello",
    "fix the test": "||fix the test",
    "exec hello": "exec||hello",
    "e hello": "exec||hello",
    "-m x exec hello": "exec|-m=x|hello",
    "exec -m x hello": "exec|-m=x|hello",
    "exec hello -m x": "exec|-m=x|hello",
    "exec resume id": "exec resume||id",
    "hello exec": "||hello exec",
    "--model=x": "|--model=x|",
    "--model=": "|--model=|",
    "-mx": "|-m=x|",
    "-m=x": "|-m=x|",
    "-m x -m y": "|-m=x -m=y|",
    "-m": "|-m!|",
    "-m -q": "|-m=-q|",
    "-f a b -q c": "|-f=a,b -q|c",
    "-f": "|-f!|",
    "-f a -- b": "|-f=a|b",
    "-d x": "|-d=x|",
    "-d -q": "|-d -q|",
    "-q x": "|-q|x",
    "-pq": "|-p -q|",
    "-pmx": "|-p -m=x|",
    "-pm x": "|-p -m=x|",
    "-pz": "|-pz|",
    "-p=hi": "|-p=hi|",
    "-- -m x": "||-m x",
    "--new": "|--new|",
    "--new=1 hi": "|--new=1|hi",
    "--new value hi": "|--new=value|hi",
    "--new hi": "|--new|hi",
    "--new v exec hi": "exec|--new=v|hi",
    "--new exec hi": "exec|--new|hi",
    "exec --new hi": "exec|--new|hi",
    "--new hi -- prompt": "|--new=hi|prompt",
    "--message hi --new x": "|--message=hi --new=x|",
    "--new --newer x": "|--new --newer|x",
    "-": "||-",
    "exec -q -": "exec|-q|-",
  };

  test.each(Object.entries(cases))("%s", (line, then) => {
    const { commands, options, words } = parse(line);
    const shown = options.map(({ name, values, incomplete }) => {
      const value = values.length === 0 ? "" : `=${values.join(",")}`;
      return `${name}${value}${incomplete === true ? "!" : ""}`;
    });
    expect(`${commands.join(" ")}|${shown.join(" ")}|${words.join(" ")}`).toBe(then);
  });

  test("without a prompt, a word after an unknown option is its value", () => {
    expect(parse("--new hi", true)).toMatchObject({ options: [{ raw: ["--new", "hi"] }], words: [] });
  });

  test("a strict engine accepts no value that begins with a dash", () => {
    const strict: Grammar = { ...grammar, strictValues: true };
    expect(parseArgs(strict, ["-m", "-q"]).options.map(({ raw }) => raw)).toEqual([["-m"], ["-q"]]);
  });

  test("true and false belong to a flag where the engine reads them so", () => {
    const loose: Grammar = { ...grammar, yargs: true };
    const flags = ({ options, words }: Parsed) => [options.map(({ raw }) => raw), words];
    expect(flags(parseArgs(loose, ["--quiet", "false", "hi"]))).toEqual([[["--quiet", "false"]], ["hi"]]);
    expect(flags(parseArgs(loose, ["--quiet", "hi"]))).toEqual([[["--quiet"]], ["hi"]]);
    expect(flags(parseArgs(grammar, ["--quiet", "false"]))).toEqual([[["--quiet"]], ["false"]]);
  });

  test("loses and invents no argument", () => {
    const word = constantFrom("-m", "x", "--model=y", "-f", "a", "-q", "--new", "-d", "exec", "--dir", "-mz");
    assert(
      property(array(word, { maxLength: 12 }), (args) => {
        const { commands, options, words } = parseArgs(grammar, args);
        expect([...commands, ...render(options), ...words].toSorted()).toEqual(args.toSorted());
      }),
    );
  });

  test("finds values under any name of an option", () => {
    const parsed = parse("-m x --model=y -d --new=1");
    expect([
      valueOf(parsed, "--model"),
      valueOf(parsed, "-m"),
      valueOf(parsed, "--debug"),
      valueOf(parsed, "--new"),
    ]).toEqual(["y", "y", null, "1"]);
    expect([has(parsed, "-d"), has(parsed, "--quiet")]).toEqual([true, false]);
  });

  test("counts the last value of an option, and all values of a repeatable one", () => {
    expect(texts(lastWins(parse("-m x -c a=1 -q -m y -c b=2 -q --new --new").options))).toEqual([
      "-c a=1",
      "-m y",
      "-c b=2",
      "-q",
      "--new",
      "--new",
    ]);
  });

  test("refuses two prompts", () => {
    expect(() => assertNoPrompt(parse("fix it"))).toThrow(/"fix"/);
    expect(() => assertNoPrompt(parse("--message hi"))).toThrow(/"--message hi"/);
    expect(() => assertNoPrompt(parse("-m x"))).not.toThrow();
  });

  test("refuses an option without its value", () => {
    expect(() => assertComplete(parse("-q -m"))).toThrow(/-m needs a value/);
  });
});

describe("splitForResume", () => {
  test("puts each option in its required place", () => {
    const parsed = parse(
      "--first --approve no exec -m x --dir d --new=1 -p --session s -i pic --plain --mouse hi",
    );
    const { root, before, after, dropped } = splitForResume(parsed);
    expect([root, before, after, dropped].map(texts)).toEqual([
      ["--first", "--approve no"],
      ["--dir d"],
      ["-m x", "--new=1", "--plain"],
      ["-p", "--session s", "-i pic", "--mouse"],
    ]);
    expect(texts(splitForResume(parsed, "ui").after)).toEqual(["-m x", "--new=1", "--mouse"]);
  });

  test.each(["--gone", "-m"])("refuses %s", (line) => {
    expect(() => splitForResume(parse(line))).toThrow(expect.objectContaining({ code: "option_unkept" }));
  });

  test("leaves out options that only add", () => {
    expect(texts(splitForResume(parse("--listen -m x")).after)).toEqual(["-m x"]);
    expect(texts(splitForResume(parse("--listen -m x"), "ui").after)).toEqual(["--listen", "-m x"]);
  });

  test("keeps a right that the other mode cannot express", () => {
    expect(() => splitForResume(parse("--rules"), "ui")).toThrow(
      expect.objectContaining({ code: "option_unkept" }),
    );
  });
});

describe("override", () => {
  const cases: Record<string, [recorded: string, native: string, then: string]> = {
    "adds what bears no right": ["-q", "-m x", "-q -m x"],
    "replaces a value": ["-m x -q", "--model=y", "-q --model=y"],
    "adds to a repeatable option": ["-c a=1", "-c b=2", "-c a=1 -c b=2"],
    "does not say the same twice": ["-c a=1 -q", "-c a=1", "-q -c a=1"],
    "keeps a right that was there": ["--dir d", "--dir d", "--dir d"],
    "refuses a new right": ["--dir d", "--dir e", "would_widen"],
    "refuses a changed right": ["--approve a", "--approve b", "would_widen"],
    "refuses a new extra": ["", "--listen", "would_widen"],
    "keeps an extra that was there": ["--listen", "--listen", "--listen"],
    "adds a limit": ["", "--strict", "--strict"],
    "adds to a limit": ["--deny a", "--deny b", "--deny a --deny b"],
    "narrows by rank": ["--rank high", "--rank mid", "--rank mid"],
    "refuses a wider rank": ["--rank low", "--rank mid", "would_widen"],
    "refuses a rank over the engine's default": ["", "--rank mid", "would_widen"],
    "allows the narrowest over the engine's default": ["", "--rank low", "--rank low"],
    "refuses a rank that is not known": ["--rank high", "--rank odd", "would_widen"],
    "refuses a rank over an unknown rank": ["--rank odd", "--rank low", "would_widen"],
    "replaces the other options of a scale": ["--wide -c rank=mid -q", "--rank low", "-q --rank low"],
    "takes the narrowest of a scale as the limit": ["--wide --rank low", "--rank mid", "would_widen"],
    "reads rights inside values": ["--rank mid", "-c rank=high", "would_widen"],
    "refuses what it does not know": ["", "--new", "would_widen"],
    "refuses words": ["", "hello", "usage"],
    "refuses sub-commands": ["", "exec", "usage"],
    "refuses to choose the session": ["", "--session s", "usage"],
    "refuses to choose the output": ["", "-p", "usage"],
    "refuses an option without its value": ["", "-m", "option_unkept"],
  };

  test.each(Object.entries(cases))("%s", (_name, [recorded, native, then]) => {
    expect(outcome(() => texts(override(parse(recorded), parse(native)).options).join(" "))).toBe(then);
  });

  test("applies a turn's options to this turn", () => {
    const parsed = override(parse("-i old"), parse("-i new"));
    expect(texts(splitForResume(parsed).after)).toEqual(["-i new"]);
  });
});

describe("keepNative", () => {
  const cases: Record<string, [given: string, native: string, then: string]> = {
    "keeps places and prompt": [
      "--approve a exec -q hi there",
      "-m x",
      "--approve a exec -q -m x -- hi there",
    ],
    "replaces a value": ["-m x", "-m y", "-m y"],
    "does not keep options of one turn": ["-q", "-i pic", "-q"],
    "refuses an option that widens the rights": ["-q", "--dir d", "would_widen"],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, native, then]) => {
    const split = (line: string) => line.split(" ").filter(Boolean);
    expect(outcome(() => keepNative({ grammar }, split(given), split(native), false).join(" "))).toBe(then);
  });
});

function outcome(run: () => string): string {
  try {
    return run();
  } catch (error) {
    if (error instanceof Fault) return error.code;
    throw error;
  }
}
