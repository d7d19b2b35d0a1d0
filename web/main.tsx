/** The shell of the page: signs in, shows the navigation and the screen of the address, says when the connection is lost. */
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import {
  connect,
  disconnect,
  type Fetched,
  onSignedOut,
  type Refusal,
  signIn,
  signOut,
  useGet,
  useLink,
  watchConnection,
} from "./api.ts";
import { clock, plural, safeLine } from "./format.ts";
import { Button, Command, Dialog, Empty, Failure, Skeleton, useAction } from "./parts/common.tsx";
import { Icon, type IconName } from "./parts/icons.tsx";
import { Help, Palette, useShortcuts } from "./parts/palette.tsx";
import { useNotifications } from "./notify.ts";
import { followLinks, type Place, usePlace } from "./router.ts";
import { Agents } from "./screens/agents.tsx";
import { Batches } from "./screens/batches.tsx";
import { Doctor } from "./screens/doctor.tsx";
import { InboxScreen } from "./screens/inbox.tsx";
import { Reviews } from "./screens/reviews.tsx";
import { RunScreen } from "./screens/run.tsx";
import { Runs } from "./screens/runs.tsx";
import { Search } from "./screens/search.tsx";
import { Usage } from "./screens/usage.tsx";
import type { Inbox, Session } from "./types.ts";

const NAVIGATION: readonly (readonly [path: string, label: string, icon: IconName])[] = [
  ["/", "Inbox", "inbox"],
  ["/runs", "Runs", "runs"],
  ["/agents", "Agents", "agents"],
  ["/usage", "Usage", "usage"],
  ["/batches", "Batches", "batches"],
  ["/reviews", "Reviews", "reviews"],
  ["/search", "Search", "search"],
  ["/doctor", "Doctor", "doctor"],
];

/** What does not fit into the bar of a phone. */
const MORE: readonly string[] = ["/batches", "/reviews", "/search", "/doctor"];

function App() {
  const [state, setState] = useState<{ session?: Session | null; error?: Refusal }>({});
  const begin = () => {
    setState({});
    signIn().then(
      (session) => {
        setState({ session });
        if (session !== null) connect();
      },
      (error: Refusal) => setState(error.status === 401 ? { session: null } : { error }),
    );
  };
  useEffect(() => {
    onSignedOut(() => {
      disconnect();
      setState({ session: null });
    });
    begin();
    watchConnection();
    // A link for another session may be opened in this tab.
    addEventListener("hashchange", begin);
    return () => removeEventListener("hashchange", begin);
  }, []);
  if (state.session === null) return <SignedOut />;
  if (state.error !== undefined)
    return (
      <main class="alone" id="main">
        <h1>Reprise</h1>
        <Failure error={state.error} onRetry={begin} />
      </main>
    );
  if (state.session === undefined)
    return (
      <main class="alone" id="main" aria-busy="true">
        <h1 class="hidden">Reprise</h1>
        <Skeleton rows={8} />
      </main>
    );
  return <Page session={state.session} />;
}

function SignedOut() {
  return (
    <main class="alone" id="main">
      <h1>Signed out</h1>
      <p>
        Run <Command>reprise web link</Command> for another link.
      </p>
    </main>
  );
}

function Page({ session }: { readonly session: Session }) {
  const place = usePlace();
  const [dialog, setDialog] = useState<"palette" | "help" | "more">();
  const inbox = useGet<Inbox>("/inbox", ["inbox"]);
  useShortcuts(setDialog, dialog !== undefined);
  const waiting = (inbox.data?.decisions.length ?? 0) + (inbox.data?.waiting.length ?? 0);
  useNotifications(waiting);
  useEffect(() => {
    if (place.screen !== "run")
      document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${titleFor(place)} · Reprise`;
  }, [place.screen, waiting]);
  return (
    <div class="page">
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Navigation place={place} waiting={waiting} session={session} onOpen={setDialog} />
      <div class="content">
        <Connection />
        <Screen place={place} session={session} inbox={inbox} />
      </div>
      {dialog === "palette" ? <Palette onClose={() => setDialog(undefined)} /> : null}
      {dialog === "more" ? <More session={session} onClose={() => setDialog(undefined)} /> : null}
      {dialog === "help" ? <Help onClose={() => setDialog(undefined)} /> : null}
    </div>
  );
}

const titleFor = ({ screen }: Place): string => screen.charAt(0).toUpperCase() + screen.slice(1);

interface ScreenProps {
  readonly place: Place;
  readonly session: Session;
  readonly inbox: Fetched<Inbox>;
}

function Screen({ place, session, inbox }: ScreenProps) {
  const mayWrite = session.rights === "full";
  switch (place.screen) {
    case "inbox":
      return <InboxScreen inbox={inbox} mayWrite={mayWrite} />;
    case "runs":
      return <Runs place={place} mayWrite={mayWrite} />;
    case "run":
      return <RunScreen key={place.handle} place={place} mayWrite={mayWrite} />;
    case "search":
      return <Search place={place} />;
    case "agents":
      return <Agents />;
    case "batches":
      return <Batches />;
    case "reviews":
      return <Reviews />;
    case "usage":
      return <Usage />;
    case "doctor":
      return <Doctor />;
    default:
      return (
        <main class="screen" id="main">
          <h1>Not found</h1>
          <Empty title="This address has no screen">
            <a href="/runs">All runs</a>
          </Empty>
        </main>
      );
  }
}

interface NavigationProps {
  readonly place: Place;
  readonly waiting: number;
  readonly session: Session;
  readonly onOpen: (dialog: "palette" | "help" | "more") => void;
}

function Navigation({ place, waiting, session, onOpen }: NavigationProps) {
  const here = place.screen === "run" ? "/runs" : place.screen === "inbox" ? "/" : `/${place.screen}`;
  return (
    <nav class="nav" aria-label="Screens">
      <a class="brand" href="/" aria-label="Reprise">
        <span class="brand-mark" aria-hidden="true">
          <svg viewBox="0 0 24 24">
            <path d="M6 4v16M18 4v16M12 9v.01M12 15v.01" />
          </svg>
        </span>
        Reprise
      </a>
      <button type="button" class="find" onClick={() => onOpen("palette")}>
        <Icon name="search" />
        Go to…
        <kbd>Ctrl K</kbd>
      </button>
      <ul>
        {NAVIGATION.map(([path, label, icon]) => (
          <li key={path} class={`nav-item is-${icon}`}>
            <a href={path} aria-current={here === path ? "page" : undefined}>
              <Icon name={icon} />
              {label}
              {icon === "inbox" && waiting > 0 ? (
                <span class="badge" aria-label={`${plural(waiting, "thing")} to do`}>
                  {waiting}
                </span>
              ) : null}
            </a>
          </li>
        ))}
        <li class="nav-item is-more">
          <button type="button" onClick={() => onOpen("more")} data-here={MORE.includes(here)}>
            <Icon name="more" />
            More
          </button>
        </li>
      </ul>
      <p class="nav-foot">
        {session.rights === "full" ? null : <span class="tag">read only</span>}
        <button type="button" class="as-link" onClick={() => onOpen("more")}>
          Reprise {safeLine(session.version, 20)}
        </button>
      </p>
    </nav>
  );
}

/** The screens that a phone's bar lacks, and the session. */
function More({ session, onClose }: { readonly session: Session; readonly onClose: () => void }) {
  const action = useAction();
  return (
    <Dialog title="More" onClose={onClose}>
      <ul class="menu">
        {NAVIGATION.filter(([path]) => MORE.includes(path)).map(([path, label, icon]) => (
          <li key={path}>
            <a href={path} onClick={onClose}>
              <Icon name={icon} />
              {label}
            </a>
          </li>
        ))}
      </ul>
      {action.error === undefined ? null : <Failure error={action.error} />}
      <p class="dim">
        Reprise {safeLine(session.version, 20)}
        {session.state === undefined ? "" : `, state directory ${safeLine(session.state, 60)}`},{" "}
        {session.rights === "full" ? "full rights" : "read only"}.
      </p>
      <footer class="form-foot">
        <Button onClick={() => action.run(signOut)}>Sign out</Button>
      </footer>
    </Dialog>
  );
}

/** Fixed height when it is there, and announced once. */
function Connection() {
  const link = useLink();
  const isLost = link.state === "lost";
  return (
    <div class={isLost ? "connection is-lost" : "connection"} role="status">
      {isLost ? (
        <>
          <span>Connection lost. What you see is from {clock(link.at)}.</span>
          <Button onClick={connect}>Reconnect</Button>
        </>
      ) : null}
    </div>
  );
}

const root = document.getElementById("page");
if (root !== null) {
  followLinks();
  render(<App />, root);
}
