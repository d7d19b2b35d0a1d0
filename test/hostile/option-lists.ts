/** Random option lists for each engine, in the spellings that its parser knows, half-knows or refuses. */

const SPELLINGS: Readonly<Record<string, string>> = {
  gemini: `--sandbox -s --s --sandbox=no --sandbox=0 --sandbox= --sandbox=true --sandbox=TRUE --sandbox=false -s=off -s0 -s=true
    --no-sandbox --s=no -sy -ys -sd true false no --yolo -y --y --yolo=no --yolo=false --yolo=true --no-yolo -y=0
    --approval-mode=plan --approval-mode=default --approval-mode=auto_edit --approval-mode=yolo --approvalMode=plan --approvalMode=yolo
    --approval-mode+plan --approvalMode+yolo --skip-trust --skipTrust --skip-trust=false --no-skip-trust --policy=p --policy+q
    --allowed-tools=a --allowedTools=b -e+x -e=y --include-directories=/ --raw-output --rawOutput=no -m+m --model=n -d --debug=false --new`,
  iflow: `--sandbox -s --s --sandbox=no --sandbox= --sandbox=true -s=off -s0 --no-sandbox true false --yolo -y --yolo=no --no-yolo
    --plan --plan=false --default --default=0 --auto-edit --autoEdit --autoEdit=no --no-plan -sy --add-dir=/ --add-dir+/a
    --include-directories=/ --allowed-tools=a --allowedTools+b -m+m -d`,
  codex: `-s+read-only -s+workspace-write -s+danger-full-access -s=read-only -s=danger-full-access -sread-only -sdanger-full-access
    --sandbox=workspace-write --sandbox+danger-full-access --yolo --dangerously-bypass-approvals-and-sandbox
    -c+sandbox_mode="read-only" -c+sandbox_mode="danger-full-access" -c=sandbox_mode=workspace-write --config+sandbox_mode='danger-full-access'
    -c+model=x -c+sandbox_workspace_write.network_access=true -c+sandbox_workspace_write.network_access=false --add-dir+/ --add-dir=/a
    -c+sandbox_workspace_write={network_access=true} -c=sandbox_workspace_write={writable_roots=["/a"],network_access=false}
    --config=sandbox_workspace_write.writable_roots=["/b"] -c+projects={"/x"={trust_level="trusted"}} -c+projects={"/work"={trust_level="untrusted"}}
    -cprojects={"/x"={trust_level="untrusted"}} --config=projects={"/work"={trust_level="trusted"}} -c+projects={"/work".trust_level="untrusted"}
    -c+projects./work.trust_level="untrusted" --config+projects./work={trust_level="trusted"} -c=projects."/work".trust_level="untrusted"
    -c+projects.x.trust_level="trusted" -c+projects={} -C+sub -C+/ --search -a+never -p+ci --enable+x --ignore-rules --skip-git-repo-check -m+x --model=y`,
  claude: `--permission-mode+plan --permission-mode=plan --permission-mode+default --permission-mode=manual --permission-mode=acceptEdits
    --permission-mode+bypassPermissions --permission-mode=auto --permission-mode=dontAsk --permission-mode=odd --dangerously-skip-permissions
    --allowedTools=Bash --allowed-tools=Edit --disallowedTools=Bash --disallowed-tools=Edit --strict-mcp-config --restricted --ide
    --add-dir=/ --add-dir=/a --settings={} --settings=x --model+m --model=n --new`,
  opencode: `--auto --auto=no --auto=false --auto=true --no-auto --auto=0 true false --pure --pure=no --no-pure --pure=true --share --share=0
    --no-share --agent+plan --agent=build --agent=plan --port=1 --port+2 -m+x --model=y --thinking`,
};

export interface Lists {
  /** Of the first attempt, and of the later one. */
  readonly given: readonly string[];
  readonly native: readonly string[];
}

/** The same lists for the same seed. */
export function* optionLists(engine: string, seed: number): Generator<Lists, never> {
  const random = numbers(seed);
  const spellings = (SPELLINGS[engine] ?? "").trim().split(/\s+/);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  const some = (most: number, from: readonly string[]) =>
    Array.from({ length: Math.floor(random() * (most + 1)) }, () => pick(from));
  const split = (picked: readonly string[]) => picked.flatMap((one) => one.split("+"));
  for (;;) {
    const given = some(4, spellings);
    // Half of the later options repeat an earlier one, which is where order and spelling matter.
    const native = some(3, random() < 0.5 && given.length > 0 ? given : spellings);
    yield { given: split(given), native: split(native) };
  }
}

/** mulberry32. */
function numbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
