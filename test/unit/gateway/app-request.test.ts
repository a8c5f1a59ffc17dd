import { expect, test } from "vitest";
import { appUrl } from "../../../src/gateway/app-request.ts";

const route = { projectId: "p-1", appName: "app" };

test("an app's address begins with the public URL, else with the Host, else with its path", () => {
  const path = "/v4/p-1/app";
  const at = (host: string | null) => ({ isOnAppHost: false, head: { host } });
  expect(appUrl(at("127.0.0.1:4000"), route, "https://api.example")).toBe(`https://api.example${path}`);
  expect(appUrl(at(null), route, "https://api.example")).toBe(`https://api.example${path}`);
  expect(appUrl(at("127.0.0.1:4000"), route, null)).toBe(`http://127.0.0.1:4000${path}`);
  expect(appUrl(at(null), route, null)).toBe(path);
});

test("on its own host an app is at the root, by TLS if the public URL is", () => {
  const place = { isOnAppHost: true, head: { host: "app--p-1.apps.example:8443" } };
  expect(appUrl(place, route, "https://api.example/base")).toBe("https://app--p-1.apps.example:8443");
  expect(appUrl(place, route, "http://api.example")).toBe("http://app--p-1.apps.example:8443");
  expect(appUrl(place, route, null)).toBe("http://app--p-1.apps.example:8443");
});
