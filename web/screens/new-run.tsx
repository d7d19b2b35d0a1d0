/** The dialog that starts a run: engine, folder, message, isolation, access. */
import { useId, useState } from "preact/hooks";
import { act, useGet } from "../api.ts";
import { safeLine } from "../format.ts";
import { Button, Dialog, Failure, useAction } from "../parts/common.tsx";
import { go } from "../router.ts";
import type { Session } from "../types.ts";

interface Engine {
  readonly id: string;
  readonly found: boolean;
  readonly version: string | null;
  readonly loggedIn: unknown;
}

const ISOLATION = [
  ["", "In the folder itself"],
  ["worktree", "In a new git worktree"],
  ["dir", "In a new empty folder"],
] as const;

type Form = Readonly<Record<"engine" | "cwd" | "message" | "isolate" | "access" | "name" | "tags", string>>;

/** The body of the request. It leaves out empty fields. */
function bodyOf({ isolate, access, name, tags: list, ...rest }: Form): object {
  const tags = list.split(/[\s,]+/).filter((tag) => tag !== "");
  return {
    ...rest,
    ...(isolate === "" ? {} : { isolate }),
    ...(access === "" ? {} : { access }),
    ...(name.trim() === "" ? {} : { name: name.trim() }),
    ...(tags.length === 0 ? {} : { tags }),
  };
}

const LOADING = [["", "Looking for engines…"]] as const;

const ACCESS = [
  ["", "As the engine's own settings say"],
  ["read", "Read only"],
  ["edit", "Change files in its folder"],
  ["full", "Everything, without asking"],
] as const;

export function NewRun({ onClose }: { readonly onClose: () => void }) {
  const engines = useGet<{ engines: readonly Engine[] }>("/engines");
  const session = useGet<Session>("/session");
  const [form, setForm] = useState({
    engine: "",
    cwd: undefined as string | undefined,
    message: "",
    isolate: "",
    access: "",
    name: "",
    tags: "",
  });
  const action = useAction();
  const found = (engines.data?.engines ?? []).filter((engine) => engine.found);
  const engine = form.engine || (found[0]?.id ?? "");
  const folders = session.data?.folders ?? session.data?.cwds ?? [];
  const cwd = form.cwd ?? folders[0] ?? "";
  const set = (change: Partial<typeof form>) => setForm({ ...form, ...change });
  const submit = () =>
    action.run(async () => {
      const started = await act<{ handle: string }>("/runs", bodyOf({ ...form, engine, cwd }));
      go(`/runs/${started.handle}`, { replace: true });
    });
  return (
    <Dialog title="New run" onClose={onClose}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <Task value={form.message} onInput={(message) => set({ message })} onSubmit={submit} />
        <div class="form-pair">
          <Choice
            label="Engine"
            value={engine}
            onChange={(value) => set({ engine: value })}
            options={
              engines.data === undefined
                ? LOADING
                : found.map(({ id, version }) => [id, version === null ? id : `${id} ${version}`])
            }
          />
          <Folder value={cwd} known={folders} onInput={(value) => set({ cwd: value })} />
        </div>
        <div class="form-pair">
          <Choice
            label="Where it works"
            value={form.isolate}
            onChange={(value) => set({ isolate: value })}
            options={ISOLATION}
          />
          <Choice
            label="What it may do"
            value={form.access}
            onChange={(value) => set({ access: value })}
            options={ACCESS}
          />
        </div>
        <div class="form-pair">
          <Text label="Name (optional)" value={form.name} onInput={(name) => set({ name })} />
          <Text label="Tags (optional)" value={form.tags} onInput={(tags) => set({ tags })} />
        </div>
        {engines.data !== undefined && found.length === 0 ? (
          <p class="hint">No engine is installed. Run: reprise doctor</p>
        ) : null}
        {action.error === undefined ? null : <Failure error={action.error} />}
        <footer class="form-foot">
          <span class="hint">The agent gets the environment of `reprise web`.</span>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={action.busy || engine === ""}>
            {action.busy ? "Starting…" : "Start"}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

interface TextProps {
  readonly label: string;
  readonly value: string;
  readonly onInput: (value: string) => void;
}

function Text({ label, value, onInput }: TextProps) {
  return (
    <label class="field-block">
      <span>{label}</span>
      <input value={value} onInput={(event) => onInput(event.currentTarget.value)} />
    </label>
  );
}

interface TaskProps extends Omit<TextProps, "label"> {
  readonly onSubmit: () => void;
}

function Task({ value, onInput, onSubmit }: TaskProps) {
  return (
    <label class="field-block">
      <span>Task for the agent</span>
      <textarea
        rows={4}
        required
        autoFocus
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) onSubmit();
        }}
      />
    </label>
  );
}

/** The known folders; any other may be typed, and the server decides. */
function Folder({
  value,
  known,
  onInput,
}: {
  readonly value: string;
  readonly known: readonly string[];
  readonly onInput: (value: string) => void;
}) {
  return (
    <div class="field-block">
      <label for="folder">Folder</label>
      <input
        id="folder"
        list="folders"
        required
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
      <datalist id="folders">
        {known.map((folder) => (
          <option key={folder} value={folder} />
        ))}
      </datalist>
    </div>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly options: readonly (readonly [value: string, text: string])[];
}

/** The label stands beside the field, so that it does not contain the options. */
function Choice({ label, value, onChange, options }: ChoiceProps) {
  const field = useId();
  return (
    <div class="field-block">
      <label for={field}>{label}</label>
      <select id={field} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map(([id, text]) => (
          <option key={id} value={id}>
            {safeLine(text, 60)}
          </option>
        ))}
      </select>
    </div>
  );
}
