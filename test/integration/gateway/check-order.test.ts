import { describe, expect } from "vitest";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const service = sharedService({
  app: { main: "def run(a):\n    return a\n", toml: "[limits]\nmax_body = 1024\n" },
});

/** A call in its parts, each of which a fault may spoil. */
type Call = {
  root: string;
  app: string;
  functionName: string;
  method: string;
  token: string | null;
  type: string;
  length: number | null;
  query: string;
  body: string;
};

type Fault = { readonly code: string; readonly change: Partial<Call> };

/** The faults in the order of the contract's table. */
async function faults(): Promise<Fault[]> {
  const { tokens, store } = service().service;
  await store.projects.insert({ id: "p-theirs", name: "theirs", createdAt: 1 });
  const expiresAt = Date.now() + 3_600_000;
  const theirs = await tokens.issue({ projectId: "p-theirs", name: "x", role: "admin", expiresAt });
  return [
    { code: "not_found", change: { root: "v3" } },
    { code: "unauthorized", change: { token: null } },
    { code: "forbidden", change: { token: theirs.token } },
    { code: "app_not_found", change: { app: "nothing" } },
    { code: "function_not_found", change: { functionName: "nothing" } },
    { code: "method_not_allowed", change: { method: "PUT" } },
    { code: "unsupported_media_type", change: { type: "text/plain" } },
    { code: "body_too_large", change: { length: 1025 } },
    { code: "bad_request", change: { query: "?async=maybe" } },
    { code: "invalid_json", change: { body: "{" } },
    { code: "invalid_arguments", change: { body: '{"b":1}' } },
  ];
}

/** The code that a call with these changes is answered with; null for a success. */
async function codeOf(changes: readonly Partial<Call>[]): Promise<string | null> {
  const { apiUrl, owner } = service().service;
  const right: Call = {
    root: "v4",
    app: "app",
    functionName: "run",
    method: "POST",
    token: owner.token,
    type: "application/json",
    length: null,
    query: "",
    body: '{"a":1}',
  };
  const call = Object.assign(right, ...changes) as Call;
  const path = `/${call.root}/${owner.projectId}/${call.app}/${call.functionName}${call.query}`;
  const headers = [
    "Host: x",
    ...(call.token === null ? [] : [`Authorization: Bearer ${call.token}`]),
    `Content-Type: ${call.type}`,
    `Content-Length: ${call.length ?? call.body.length}`,
  ];
  await using connection = await RawConnection.open(apiUrl);
  connection.send(rawRequest(`${call.method} ${path} HTTP/1.1`, headers, call.body));
  const { body } = await connection.answer();
  return (JSON.parse(body) as { code?: string }).code ?? null;
}

function overlap(first: Fault, second: Fault): boolean {
  return Object.keys(first.change).some((part) => part in second.change);
}

describe("of a call with several faults", () => {
  verifies("errors.order", "each alone is told by its own code", async () => {
    expect(await codeOf([])).toBeNull();
    for (const { code, change } of await faults()) expect(await codeOf([change])).toBe(code);
  });

  verifies("errors.order", "of any two the one that stands first in the table is told", async () => {
    await codeOf([]);
    const inOrder = await faults();
    let pairs = 0;
    for (const [place, first] of inOrder.entries()) {
      for (const second of inOrder.slice(place + 1)) {
        // Two faults of the same part cannot be in one call.
        if (overlap(first, second)) continue;
        pairs += 1;
        const told = await codeOf([first.change, second.change]);
        expect(`${first.code} + ${second.code}: ${told}`).toBe(
          `${first.code} + ${second.code}: ${first.code}`,
        );
      }
    }
    expect(pairs).toBe(53);
  });

  verifies(
    "errors.order",
    "with all of them at once the first is told, then the next, and so on",
    async () => {
      await codeOf([]);
      let left = await faults();
      while (left.length > 0) {
        // Reversed: where two spoil the same part, the one that comes first has the last word.
        expect(await codeOf(left.map(({ change }) => change).toReversed())).toBe(left[0]?.code);
        left = left.slice(1);
      }
    },
  );
});
