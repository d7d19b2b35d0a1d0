/** What does not fit into the bar of a phone. */
import { signOut } from "../api.ts";
import { safeLine } from "../format.ts";
import { Button, Failure, useAction } from "../parts/common.tsx";
import { Icon, type IconName } from "../parts/icons.tsx";
import type { Session } from "../types.ts";

const PLACES: readonly (readonly [path: string, label: string, icon: IconName])[] = [];

export function More({ session }: { readonly session: Session }) {
  const action = useAction();
  return (
    <main class="screen" id="main">
      <header class="screen-head">
        <h1>More</h1>
      </header>
      <ul class="menu">
        {PLACES.map(([path, label, icon]) => (
          <li key={path}>
            <a href={path}>
              <Icon name={icon} />
              {label}
            </a>
          </li>
        ))}
      </ul>
      {action.error === undefined ? null : <Failure error={action.error} />}
      <p class="dim">
        Reprise {safeLine(session.version, 20)}, state directory {safeLine(session.state ?? "", 60)},{" "}
        {session.rights === "full" ? "full rights" : "read only"}
      </p>
      <Button onClick={() => action.run(signOut)}>Sign out</Button>
    </main>
  );
}
