import type { TestApp, TestService } from "../../support/service.ts";
import { rawRequest } from "../../support/raw-http.ts";

/** `open` may be called by anybody, and holds a call for as long as a file is not there; `app` takes a token. */
const OPEN: TestApp = {
  main: `
import os
import time

def run(size=0):
    return "x" * size

def hold():
    while not os.path.exists(os.path.join(os.environ["PERSISTENT_STORAGE"], "enough")):
        time.sleep(0.02)
    return "held"
`,
  toml: "[deployment]\ndisable_auth = true\n[scaling]\nreplica_concurrency = 50\n",
};

export const APPS: Record<string, TestApp> = { open: OPEN, app: { main: "def run():\n    return 1\n" } };

/** The same questions to either listener. */
export type Listener = {
  readonly name: string;
  url(test: TestService): string;
  /** A request that a token allows, as text. */
  known(test: TestService, headers?: readonly string[]): string;
  /** One that anybody may make and that is answered 200. */
  open(test: TestService, headers?: readonly string[]): string;
  /** One that anybody may make and that a test holds under way. */
  held(test: TestService): string;
  /** The head of one that is refused for want of a token, before its body is looked at. */
  refused(test: TestService, headers: readonly string[]): string;
  /** The head of one with a token whose body is still to come. */
  begun(test: TestService, headers: readonly string[]): string;
};

function tokenOf({ service }: TestService): string {
  return `Authorization: Bearer ${service.owner.token}`;
}

const JSON_TYPE = "Content-Type: application/json";

export const LISTENERS: readonly Listener[] = [
  {
    name: "the run endpoint",
    url: ({ service }) => service.apiUrl,
    known: (test, headers = []) =>
      rawRequest(`POST ${place(test, "app")} HTTP/1.1`, ["Host: x", tokenOf(test), ...headers]),
    open: (test, headers = []) => rawRequest(`POST ${place(test, "open")} HTTP/1.1`, ["Host: x", ...headers]),
    held: (test) => rawRequest(`POST ${place(test, "open", "hold")} HTTP/1.1`, ["Host: x"]),
    refused: (test, headers) =>
      rawRequest(`POST ${place(test, "app")} HTTP/1.1`, ["Host: x", JSON_TYPE, ...headers]),
    begun: (test, headers) =>
      rawRequest(`POST ${place(test, "app")} HTTP/1.1`, ["Host: x", tokenOf(test), JSON_TYPE, ...headers]),
  },
  {
    name: "the management API",
    url: ({ service }) => service.baseUrl,
    known: (test, headers = []) =>
      rawRequest("GET /v2/projects HTTP/1.1", ["Host: x", tokenOf(test), ...headers]),
    open: (_, headers = []) => rawRequest("GET /v2/notifications HTTP/1.1", ["Host: x", ...headers]),
    held: () => {
      const body = '{"email":"ada@example.com","password":"none of theirs"}';
      return rawRequest(
        "POST /v2/session HTTP/1.1",
        ["Host: x", JSON_TYPE, `Content-Length: ${body.length}`],
        body,
      );
    },
    refused: (_, headers) => rawRequest("POST /v2/projects HTTP/1.1", ["Host: x", JSON_TYPE, ...headers]),
    begun: (test, headers) =>
      rawRequest(`POST /v2/projects/${test.service.owner.projectId}/service-accounts HTTP/1.1`, [
        "Host: x",
        tokenOf(test),
        JSON_TYPE,
        ...headers,
      ]),
  },
];

/** The path of an app's function on the run endpoint. */
export function place({ service }: TestService, app: string, functionName = "run"): string {
  return `/v4/${service.owner.projectId}/${app}/${functionName}`;
}
