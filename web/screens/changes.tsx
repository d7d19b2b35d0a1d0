/** What the run changed since it began, file by file. */
import { useGet } from "../api.ts";
import { plural, safeLine } from "../format.ts";
import { type DiffFile, parseDiff } from "../model/diff.ts";
import { Empty, Failure, Note, Skeleton } from "../parts/common.tsx";
import { DiffView } from "../parts/diff.tsx";

interface Diff {
  readonly files: readonly {
    readonly path: string;
    readonly state: string;
    readonly added: number;
    readonly deleted: number;
  }[];
  readonly patch: string;
  readonly commit?: string;
  readonly exact?: boolean;
}

export function Changes({ handle }: { readonly handle: string }) {
  const { data, error, reload } = useGet<Diff>(`/runs/${handle}/diff`, [`run/${handle}`]);
  if (error !== undefined) return <Failure error={error} onRetry={reload} />;
  if (data === undefined) return <Skeleton rows={8} />;
  const files = parseDiff(data.patch);
  if (data.files.length === 0 && files.length === 0)
    return (
      <Empty title="No changed files">
        <p>Nothing in the folder differs from the commit that the run began with.</p>
      </Empty>
    );
  const added = data.files.reduce((sum, file) => sum + (file.added ?? 0), 0);
  const deleted = data.files.reduce((sum, file) => sum + (file.deleted ?? 0), 0);
  return (
    <section class="changes" aria-label="Changes">
      <p class="changes-sum" role="status">
        {plural(data.files.length, "file")} <span class="is-good">+{added}</span>{" "}
        <span class="is-bad">−{deleted}</span>
        {data.commit === undefined ? null : (
          <span class="dim"> since {safeLine(data.commit, 80).slice(0, 10)}</span>
        )}
      </p>
      {data.exact === false ? (
        <Note level="note">
          The folder is shared with other work: some of these changes may not be of this run.
        </Note>
      ) : null}
      {files.map((file: DiffFile) => (
        <DiffView key={file.path} file={file} isOpen={files.length <= 20} />
      ))}
    </section>
  );
}
