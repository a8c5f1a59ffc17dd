/** Which headers of an answer pages may read: the service's, all of them, or those that the app names. */
export type Exposure = "ours" | "all" | "app";

const EXPOSED = "X-Request-Id, Location, Server-Timing, Retry-After, RateLimit, RateLimit-Policy";
const PREFLIGHT_SECONDS = "600";
/** All that browsers know: a server app may take any of them. */
const METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/** Which pages may call the app endpoints: bearer tokens only, so no origin has to be trusted. */
export class Cors {
  readonly #isOpen: boolean;
  readonly #origins: ReadonlySet<string>;

  constructor(origins: readonly string[]) {
    this.#isOpen = origins.includes("*");
    this.#origins = new Set(origins);
  }

  /** Headers for an answer to a page of that origin; none for a page that may not see it. */
  headers(origin: string, exposure: Exposure = "ours"): Record<string, string> {
    if (!this.#isOpen && !this.#origins.has(origin)) return { vary: "Origin" };
    return {
      "access-control-allow-origin": this.#isOpen ? "*" : origin,
      "access-control-expose-headers": exposure === "all" ? `${EXPOSED}, *` : EXPOSED,
      ...(!this.#isOpen && { vary: "Origin" }),
    };
  }

  /** Headers of the answer to a preflight, which comes without a token: they do not depend on the app. */
  preflight(origin: string, asked: string | undefined): Record<string, string> {
    const headers = this.headers(origin);
    if (!headers["access-control-allow-origin"]) return headers;
    return {
      ...headers,
      "access-control-allow-methods": METHODS,
      "access-control-allow-headers": asked ?? "Authorization, Content-Type",
      "access-control-max-age": PREFLIGHT_SECONDS,
    };
  }
}
