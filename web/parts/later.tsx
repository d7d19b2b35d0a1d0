/** A part whose code is loaded when it is first shown. */
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Refusal } from "../api.ts";
import { Failure, Skeleton } from "./common.tsx";

interface LaterProps<P> {
  readonly load: () => Promise<ComponentType<P>>;
  readonly props: P;
}

export function Later<P extends object>({ load, props }: LaterProps<P>) {
  const [state, setState] = useState<{ Part?: ComponentType<P>; failed?: true }>({});
  useEffect(() => {
    let isWanted = true;
    load().then(
      (Part) => isWanted && setState({ Part }),
      () => isWanted && setState({ failed: true }),
    );
    return () => void (isWanted = false);
  }, [load]);
  if (state.failed === true)
    return (
      <Failure
        error={new Refusal(0, "no_connection", "This part could not be loaded. Load the page again.")}
      />
    );
  if (state.Part === undefined) return <Skeleton rows={8} />;
  return <state.Part {...props} />;
}
