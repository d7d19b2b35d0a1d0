/** The styles of an exported page: light and dark, from 400 pixels on, for screen and paper. */
export const STYLE = `
:root {
  --back: #fbfbfa; --card: #fff; --text: #1f2328; --dim: #59636e; --line: #d1d9e0; --code: #f1f3f5; --accent: #0b63c5;
  --good: #116329; --bad: #b3261e; --warn: #7d4e00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #0d1117; --card: #151b23; --text: #e6edf3; --dim: #9198a1; --line: #343b44; --code: #1f2630;
    --accent: #6cb0ff; --good: #56d364; --bad: #ff8078; --warn: #e3b341;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 56rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .25rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { font-size: .8rem; margin: 0 0 .35rem; color: var(--dim); text-transform: uppercase; letter-spacing: .04em; }
p { margin: 0 0 .75rem; overflow-wrap: anywhere; }
.facts, footer { color: var(--dim); font-size: .875rem; }
.note { color: var(--dim); font-size: .9rem; font-style: italic; }
.prose { white-space: pre-wrap; }
article { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .75rem 1rem;
  margin: .75rem 0; }
article > :last-child { margin-bottom: 0; }
article.user { border-left: 4px solid var(--accent); }
code, pre { font: .85em/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; background: var(--code);
  border-radius: .3rem; }
code { padding: .1em .35em; overflow-wrap: anywhere; }
pre { padding: .75rem; overflow-x: auto; margin: 0 0 .75rem; }
details { margin: 0 0 .75rem; }
summary { cursor: pointer; color: var(--dim); }
details > ul, details > pre { margin-top: .5rem; }
ul { margin: 0; padding-left: 1.25rem; }
.failed { color: var(--bad); }
.badge { font-size: .8rem; font-weight: 600; }
.completed { color: var(--good); } .badge.failed, .diverged { color: var(--bad); }
.interrupted, .cancelled { color: var(--warn); } .running { color: var(--accent); }
footer { margin-top: 2rem; padding-top: 1rem; border-top: 1px solid var(--line); }
`;
