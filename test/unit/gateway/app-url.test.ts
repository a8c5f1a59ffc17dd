import { expect, test } from "vitest";
import { appUrl } from "../../../src/gateway/app-url.ts";

test("an app's address begins with the public URL, else with the Host, else with its path", () => {
  const route = { projectId: "p-1", appName: "app" };
  const path = "/v4/p-1/app";
  expect(appUrl(route, "https://api.example", "127.0.0.1:4000")).toBe(`https://api.example${path}`);
  expect(appUrl(route, "https://api.example", undefined)).toBe(`https://api.example${path}`);
  expect(appUrl(route, null, "127.0.0.1:4000")).toBe(`http://127.0.0.1:4000${path}`);
  expect(appUrl(route, null, undefined)).toBe(path);
});
