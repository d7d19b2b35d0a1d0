/** Octokit over our `fetch`: requests, pages and GraphQL. It throws only Faults. */
import { Fault } from "../core/faults.ts";
import { githubFetch, type HttpOptions } from "./http.ts";

type Parameters = Readonly<Record<string, string | number | null | readonly string[]>>;

export interface GitHubClient {
  /** `route` begins with the method: GET, POST, PATCH, DELETE. */
  ask(route: string, parameters: Parameters): Promise<unknown>;
  pages(route: string, parameters: Parameters): AsyncIterable<unknown>;
  graphql(query: string, variables: Parameters): Promise<unknown>;
}

/** Loads Octokit with the first request to GitHub. */
export async function connectGitHub(options: HttpOptions): Promise<GitHubClient> {
  const { access } = options;
  const [{ Octokit }, { paginateRest }] = await Promise.all([
    import("@octokit/core"),
    import("@octokit/plugin-paginate-rest"),
  ]);
  const silent = () => {};
  const octokit = new (Octokit.plugin(paginateRest))({
    ...(access.token === null ? {} : { auth: access.token }),
    baseUrl: access.baseUrl,
    userAgent: "reprise",
    request: { fetch: githubFetch(options) },
    log: { debug: silent, info: silent, warn: silent, error: silent },
  });
  return {
    ask: (route, parameters) =>
      orFault(async () => (await octokit.request(route, parameters)).data as unknown),
    async *pages(route, parameters) {
      const pages = octokit.paginate.iterator(route, parameters)[Symbol.asyncIterator]();
      for (;;) {
        const page = await orFault(() => pages.next());
        if (page.done === true) return;
        yield page.value.data;
      }
    },
    graphql: (query, variables) => orFault(() => octokit.graphql<unknown>(query, variables)),
  };
}

/** Octokit wraps errors of its fetch; its own errors mean a reply that it cannot read. */
async function orFault<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Error && error.cause instanceof Fault) throw error.cause;
    throw new Fault("github_garbled", "GitHub's API answers with errors, or not as documented.");
  }
}
