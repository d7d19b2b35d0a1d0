import { describe, expect, test } from "vitest";
import { type MarkNode, markdownOf } from "./markdown.ts";

describe("Markdown", () => {
  test("becomes known nodes", () => {
    expect(
      markdownOf("# Plan\n\nFix **it** in `a.ts`:\n\n1. read\n2. [x](https://example.com/a?b=1)\n"),
    ).toEqual([
      { tag: "heading", depth: 1, children: ["Plan"] },
      {
        tag: "p",
        children: ["Fix ", { tag: "strong", children: ["it"] }, " in ", { tag: "code", text: "a.ts" }, ":"],
      },
      {
        tag: "ol",
        children: [
          { tag: "li", children: ["read"] },
          { tag: "li", children: [{ tag: "a", href: "https://example.com/a?b=1", children: ["x"] }] },
        ],
      },
    ]);
  });

  test("code keeps its text", () => {
    expect(markdownOf("```ts\nconst a = '<b>';\n```")).toEqual([
      { tag: "pre", text: "const a = '<b>';", language: "ts" },
    ]);
  });

  test("a text that is too long or too deep is shown as it is", () => {
    expect(markdownOf("a".repeat(20_001))).toBeNull();
    expect(() => markdownOf("> ".repeat(10_000))).not.toThrow();
  });

  test("control and bidirectional characters become visible", () => {
    expect(markdownOf("a\u202eb\u001b[31m")).toEqual([{ tag: "p", children: ["a\\u{202e}b\\x1b[31m"] }]);
  });
});

/** Every address that a reader could follow, and every tag. */
function hrefsIn(nodes: readonly MarkNode[]): readonly string[] {
  return nodes.flatMap((node) => {
    if (typeof node === "string") return [];
    const own = node.tag === "a" ? [node.href] : [];
    return "children" in node ? [...own, ...hrefsIn(node.children)] : own;
  });
}

test.each([
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1))",
  "[x](java\nscript:alert(1))",
  "[x](&#106;avascript:alert(1))",
  "[x](data:text/html,<script>alert(1)</script>)",
  "[x](vbscript:x)",
  "[x](file:///etc/passwd)",
  "[x](//evil.test/a)",
  "[x](/api/v1/session)",
  "[x](\\\\evil.test)",
  "[x](blob:http://a)",
  "<javascript:alert(1)>",
  "<a href='javascript:alert(1)'>x</a>",
  "<img src=x onerror=alert(1)>",
  "<script>alert(1)</script>",
  "<svg/onload=alert(1)>",
  "<iframe srcdoc='<script>alert(1)</script>'>",
  "[x]: javascript:alert(1)\n\n[x]",
  "![x](javascript:alert(1))",
  "`<img src=x onerror=alert(1)>`",
])("the payload %j gives no address to follow", (text) => {
  expect(hrefsIn(markdownOf(text) ?? [])).toEqual([]);
});

test("an image is a link to follow or not, never a picture", () => {
  expect(markdownOf("![chart](https://example.com/a.png)")).toEqual([
    { tag: "p", children: [{ tag: "a", href: "https://example.com/a.png", children: ["chart"] }] },
  ]);
});
