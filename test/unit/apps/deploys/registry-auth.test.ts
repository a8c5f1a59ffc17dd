import { expect } from "vitest";
import { readRegistryAuth } from "../../../../src/apps/deploys/deploy-request.ts";
import { verifies } from "../../../verifies.ts";

verifies("images.registry-auth", "only logins are taken of what a client sends", () => {
  const sent = {
    auths: { "ghcr.io": { auth: "YTpi", email: "a@b" }, empty: { auth: "" }, odd: 7, none: null },
    credsStore: "evil",
    credHelpers: { "ghcr.io": "evil" },
  };
  expect(readRegistryAuth(JSON.stringify(sent))).toEqual({ auths: { "ghcr.io": { auth: "YTpi" } } });
  const long = JSON.stringify({ auths: { a: { auth: "x".repeat(70_000) } } });
  for (const other of [undefined, 7, {}, "", "{", "null", "[]", '{"auths":[]}', '{"auths":{"a":{}}}', long])
    expect([other, readRegistryAuth(other)]).toEqual([other, null]);
});
