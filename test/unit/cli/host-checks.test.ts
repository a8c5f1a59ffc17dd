import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { checkNode, checkPythons } from "../../../src/cli/host-checks.ts";
import { readSettings } from "../../../src/config/settings.ts";
import { REPOSITORY } from "../../support/source-files.ts";

test("the oldest Node that doctor takes is the one that package.json names", () => {
  const { engines } = JSON.parse(readFileSync(path.join(REPOSITORY, "package.json"), "utf8")) as {
    engines: { node: string };
  };
  const oldest = engines.node.replace(">=", "");
  const [major, minor = 0] = oldest.split(".").map(Number);
  expect(checkNode(`${oldest}.0`).status).toBe("ok");
  expect(checkNode("100.0.0").status).toBe("ok");
  expect(checkNode(`${major}.${minor - 1}.9`)).toMatchObject({
    status: "fail",
    remedy: `install Node ${oldest} or newer`,
  });
});

test("on a host without any Python there is something to do about interpreter, versions and packages", async () => {
  const { settings } = readSettings({ flags: { python: "/no/such/python" }, env: {} });
  const findings = await checkPythons(settings, { PATH: "/no/such/folder" });
  expect(findings.map(({ check, status }) => `${check} ${status}`)).toEqual([
    "python fail",
    "python versions warn",
    "packages warn",
  ]);
});
