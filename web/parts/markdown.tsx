/** Draws an agent's Markdown from the tree of `model/markdown.ts`. */
import { type ComponentChild, h } from "preact";
import { memo } from "../memo.ts";
import { safe } from "../format.ts";
import { type MarkNode, markdownOf } from "../model/markdown.ts";
import { CopyButton } from "./common.tsx";

export const Markdown = memo(({ text }: { readonly text: string }) => {
  const tree = markdownOf(text);
  if (tree === null) return <pre class="plain">{safe(text)}</pre>;
  return <div class="md">{tree.map(draw)}</div>;
});

function draw(node: MarkNode): ComponentChild {
  if (typeof node === "string") return node;
  switch (node.tag) {
    case "heading":
      // An agent's headings are no part of the page's structure.
      return <p class={`md-heading is-${node.depth}`}>{node.children.map(draw)}</p>;
    case "code":
      return <code>{node.text}</code>;
    case "pre":
      return (
        <div class="code">
          <pre tabIndex={0}>
            <code>{node.text}</code>
          </pre>
          <CopyButton text={node.text} />
        </div>
      );
    case "a":
      return (
        <a href={node.href} title={node.href} target="_blank" rel="noopener noreferrer">
          {node.children.map(draw)}
        </a>
      );
    case "task":
      return <input type="checkbox" checked={node.done} disabled aria-label={node.done ? "done" : "open"} />;
    case "br":
    case "hr":
      return h(node.tag, null);
    case "table":
      return (
        <div class="table-box" tabIndex={0} role="region" aria-label="Table">
          <table>{node.children.map(draw)}</table>
        </div>
      );
    case "p":
    case "strong":
    case "em":
    case "del":
    case "blockquote":
    case "ul":
    case "ol":
    case "li":
    case "thead":
    case "tbody":
    case "tr":
    case "th":
    case "td":
      return h(node.tag, node.start === undefined ? null : { start: node.start }, node.children.map(draw));
  }
}
