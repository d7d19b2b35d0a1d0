/**
 * GitHub as a service: the repository of a remote, access to tokens, and requests to the API. The door of this folder.
 * Pull requests and issues belong to other folders.
 */
export { type AccessOptions, accessTo, namedHosts } from "./access.ts";
export { type GitHubClient, connectGitHub } from "./client.ts";
export type { HttpOptions } from "./http.ts";
export {
  baseRemote,
  canonicalHost,
  GITHUB,
  parseRemote,
  type Remote,
  remotesIn,
  type Repository,
  repositoryOf,
  sameRepository,
  urlParts,
} from "./remote.ts";
