import { expect } from "vitest";
import { checkAppHosts } from "../../../src/cli/check-app-hosts.ts";
import { verifies } from "../../verifies.ts";

verifies("origins.doctor", "a wildcard that leads nowhere is told, with what to do", async () => {
  const asked: string[] = [];
  const lookUp = async (name: string): Promise<{ address: string }> => {
    asked.push(name);
    if (name.endsWith("missing.example")) throw new Error("getaddrinfo ENOTFOUND");
    return { address: "203.0.113.7" };
  };
  expect(await checkAppHosts({ appHosts: null }, lookUp)).toMatchObject({ status: "ok" });
  expect(asked).toEqual([]);
  expect(await checkAppHosts({ appHosts: "apps.example" }, lookUp)).toMatchObject({
    status: "ok",
    message: "*.apps.example resolves to 203.0.113.7",
  });
  expect(await checkAppHosts({ appHosts: "missing.example" }, lookUp)).toMatchObject({
    status: "warn",
    message: "*.missing.example does not resolve here: getaddrinfo ENOTFOUND",
    remedy: expect.stringContaining("DNS record for *.missing.example") as string,
  });
});
