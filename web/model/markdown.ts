/**
 * An agent's Markdown as a tree of known nodes. marked only splits the text into tokens: no HTML string exists at any
 * point, raw HTML is text, images are links, and links are http(s) or text. Pure.
 */
import { Lexer, type Token, type Tokens } from "marked";
import { harmless } from "../../src/lib/harmless.ts";

export type MarkNode =
  | string
  | {
      readonly tag:
        | "p"
        | "strong"
        | "em"
        | "del"
        | "blockquote"
        | "ul"
        | "ol"
        | "li"
        | "table"
        | "thead"
        | "tbody"
        | "tr"
        | "th"
        | "td";
      readonly children: readonly MarkNode[];
      readonly start?: number;
    }
  | { readonly tag: "heading"; readonly depth: number; readonly children: readonly MarkNode[] }
  | { readonly tag: "code"; readonly text: string }
  | { readonly tag: "pre"; readonly text: string; readonly language: string }
  | { readonly tag: "a"; readonly href: string; readonly children: readonly MarkNode[] }
  | { readonly tag: "task"; readonly done: boolean }
  | { readonly tag: "br" }
  | { readonly tag: "hr" };

/** marked takes quadratic time for some hostile texts: at this length, a third of a second. */
const MOST_CHARACTERS = 20_000;

/** Null: show the text as it is, since it is too long or nested too deeply. */
export function markdownOf(text: string): readonly MarkNode[] | null {
  if (text.length > MOST_CHARACTERS) return null;
  try {
    return nodes(new Lexer({ gfm: true }).lex(harmless(text)));
  } catch {
    return null;
  }
}

const nodes = (tokens: readonly Token[] | undefined): readonly MarkNode[] => (tokens ?? []).flatMap(node);

function node(token: Token): readonly MarkNode[] {
  switch (token.type) {
    case "space":
    case "def":
      return [];
    case "heading":
      return [{ tag: "heading", depth: (token as Tokens.Heading).depth, children: nodes(token.tokens) }];
    case "paragraph":
      return [{ tag: "p", children: nodes(token.tokens) }];
    case "text":
      return token.tokens === undefined ? [(token as Tokens.Text).text] : nodes(token.tokens);
    case "escape":
      return [(token as Tokens.Escape).text];
    case "strong":
    case "em":
    case "del":
      return [{ tag: token.type, children: nodes(token.tokens) }];
    case "blockquote":
      return [{ tag: "blockquote", children: nodes(token.tokens) }];
    case "codespan":
      return [{ tag: "code", text: (token as Tokens.Codespan).text }];
    case "code":
      return [{ tag: "pre", text: (token as Tokens.Code).text, language: (token as Tokens.Code).lang ?? "" }];
    case "br":
    case "hr":
      return [{ tag: token.type }];
    case "list":
      return [list(token as Tokens.List)];
    case "link":
    case "image":
      return link(token as Tokens.Link | Tokens.Image);
    case "table":
      return [table(token as Tokens.Table)];
    // Raw HTML, and tokens of later versions.
    default:
      return [token.raw];
  }
}

function list({ ordered, start, items }: Tokens.List): MarkNode {
  const children = items.map((item): MarkNode => {
    const box: MarkNode[] = item.task ? [{ tag: "task", done: item.checked === true }] : [];
    const rest = item.tokens.filter(({ type }) => type !== "checkbox");
    return { tag: "li", children: [...box, ...nodes(rest)] };
  });
  if (!ordered) return { tag: "ul", children };
  return { tag: "ol", children, ...(typeof start === "number" && start !== 1 ? { start } : {}) };
}

const isWeb = (href: string): boolean => /^https?:\/\/[^\s\\]+$/i.test(href) && URL.canParse(href);

function link(token: Tokens.Link | Tokens.Image): readonly MarkNode[] {
  const words = token.type === "image" ? [token.text || "image"] : nodes(token.tokens);
  if (isWeb(token.href)) return [{ tag: "a", href: token.href, children: words }];
  return token.href === "" ? words : [...words, ` (${token.href})`];
}

function table({ header, rows }: Tokens.Table): MarkNode {
  const row = (cells: readonly Tokens.TableCell[], tag: "th" | "td"): MarkNode => ({
    tag: "tr",
    children: cells.map((cell) => ({ tag, children: nodes(cell.tokens) })),
  });
  return {
    tag: "table",
    children: [
      { tag: "thead", children: [row(header, "th")] },
      { tag: "tbody", children: rows.map((cells) => row(cells, "td")) },
    ],
  };
}
