/**
 * GitHub as a service: which repository a remote is, who may see which token, and how the API is asked. The door of
 * this folder. Knows no resource: pull requests and issues are their folders' own.
 */
export { type AccessOptions, accessTo, namedHosts } from "./access.ts";
export { type Client, connect } from "./client.ts";
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
