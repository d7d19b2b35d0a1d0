/**
 * Decides which requests the server hears at all, before authentication and routing. Pure.
 *
 * Any web page in the user's browser and any user of the machine can reach a loopback port. Names are compared whole
 * with a fixed list: a page whose own name was bound to 127.0.0.1 sends its own Host and Origin.
 */

/** What a request says about itself. Null: the header is missing. */
export interface RequestFacts {
  readonly method: string;
  /** The request target as sent. */
  readonly target: string;
  readonly host: string | null;
  readonly origin: string | null;
  /** `Sec-Fetch-Site` and `Sec-Fetch-Mode`. */
  readonly site: string | null;
  readonly mode: string | null;
  readonly contentType: string | null;
  /** A proxy added its own headers. */
  readonly forwarded: boolean;
  readonly upgrade: boolean;
  /** `Authorization: Bearer`: a script, not a page. */
  readonly bearer: boolean;
}

export interface Names {
  /** `127.0.0.1:20123`, with the port. */
  readonly hosts: ReadonlySet<string>;
  /** `http://127.0.0.1:20123`. */
  readonly origins: ReadonlySet<string>;
  /** A proxy on this machine forwards the requests. */
  readonly behindProxy: boolean;
}

export interface Refusal {
  readonly status: number;
  readonly code: WebCode;
  readonly message: string;
}

/** Codes of the server beside those of faults. */
export type WebCode =
  | "unauthorized"
  | "forbidden"
  | "not_found"
  | "too_many"
  | "method"
  | "media"
  | "too_large"
  | "host";

const METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "DELETE"]);
const READS: ReadonlySet<string> = new Set(["GET", "HEAD"]);

/** Null: go on. */
export function refuse(facts: RequestFacts, names: Names): Refusal | null {
  const { method, target, host, origin, upgrade } = facts;
  if (host === null || !names.hosts.has(host))
    return refusal(421, "host", "This server does not answer to that name.");
  if (!target.startsWith("/") || target.startsWith("//"))
    return refusal(400, "not_found", "The request target must be a path.");
  if (facts.forwarded && !names.behindProxy)
    return refusal(
      403,
      "forbidden",
      "The request came through a proxy. Start the server with --behind-proxy.",
    );
  if (!METHODS.has(method))
    return refusal(405, "method", `The server does not know the method ${method.slice(0, 20)}.`);
  if (origin !== null && !names.origins.has(origin))
    return refusal(403, "forbidden", "The request comes from another site.");
  const writes = !READS.has(method) || upgrade;
  if (writes && origin === null && !facts.bearer)
    return refusal(403, "forbidden", "The request names no origin.");
  if (!isOwnSite(facts)) return refusal(403, "forbidden", "The request comes from another site.");
  if (method === "POST" && !upgrade && facts.contentType !== "application/json")
    return refusal(415, "media", "The content type must be application/json.");
  return null;
}

/** A browser names the relation of the page that asks. People may open the page itself from anywhere. */
function isOwnSite({ method, target, site, mode, upgrade }: RequestFacts): boolean {
  if (site === null || site === "same-origin") return true;
  const opensPage = READS.has(method) && !upgrade && mode === "navigate" && !isApi(target);
  return opensPage;
}

export function isApi(target: string): boolean {
  return /^\/api(?:[/?#]|$)/.test(target);
}

function refusal(status: number, code: WebCode, message: string): Refusal {
  return { status, code, message };
}

/** The headers of every reply, errors included. */
export const HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy": [
    "default-src 'none'",
    ...["script-src", "style-src", "img-src", "font-src", "connect-src", "manifest-src", "worker-src"].map(
      (name) => `${name} 'self'`,
    ),
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; "),
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Permissions-Policy": "camera=(), microphone=(), geolocation=(), clipboard-read=()",
};
