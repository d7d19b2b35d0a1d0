/** Mount points in a run that would be removed. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { change, type Way } from "./hidden-work.ts";

/** A mount point in what would be removed: the files behind it are not the run's. */
export interface Mounted extends Way {
  /** Shell words, for a mount namespace: TREE is the worktree, RUN the run directory, BEHIND a folder with a file. */
  readonly mount: string;
}

const mounted = (name: string, mount: string, hide: Way["hide"] = () => {}): Mounted => ({
  name,
  mount,
  hide,
});

export const MOUNTED: readonly Mounted[] = [
  mounted(
    "another folder bound into an ignored one",
    'mkdir -p "$TREE/build"; mount --bind "$BEHIND" "$TREE/build"',
  ),
  mounted(
    "another disk in an ignored folder",
    'mkdir -p "$TREE/build/deep"; mount -t tmpfs tmpfs "$TREE/build/deep"; echo x >"$TREE/build/deep/x"',
  ),
  mounted(
    "a folder with a blank in its name",
    'mkdir -p "$TREE/build/a b"; mount --bind "$BEHIND" "$TREE/build/a b"',
  ),
  mounted(
    "a file bound over an ignored one",
    'touch "$TREE/build/out"; mount --bind "$BEHIND/file" "$TREE/build/out"',
    ({ tree }) => mkdirSync(join(tree, "build")),
  ),
  mounted(
    "a changed file under a mount that shows the committed one",
    'mount --bind "$REPOSITORY/src" "$TREE/src"',
    (ground) => change(ground),
  ),
  mounted(
    "a folder bound into the recordings",
    'mkdir -p "$RUN/attempts/1/x"; mount --bind "$BEHIND" "$RUN/attempts/1/x"',
  ),
  mounted(
    "a folder bound into what git keeps for the worktree",
    'mkdir -p "$GIT_DIRECTORY/x"; mount --bind "$BEHIND" "$GIT_DIRECTORY/x"',
  ),
];
