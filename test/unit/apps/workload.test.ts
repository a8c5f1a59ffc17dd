import { expect, test } from "vitest";
import { templateKeepMs, workloadOf } from "../../../src/apps/workload.ts";
import { readAppConfig } from "../../../src/config/app-config.ts";
import type { App, Version } from "../../../src/model/app.ts";
import { verifies } from "../../verifies.ts";

const APP: App = {
  number: 1,
  projectId: "p-one",
  name: "app",
  currentVersionId: null,
  createdAt: 0,
  updatedAt: 0,
};
const VERSION: Version = {
  id: "version",
  appNumber: 1,
  number: 1,
  config: readAppConfig({ host: { cpuCount: 2 } }).config,
  overrides: null,
  bundle: "bundles/p-one/app/version",
  bundleHash: null,
  bundleBlob: null,
  bundleBytes: null,
  environmentBlob: null,
  environmentBytes: null,
  environmentTag: null,
  environment: "environments/0123",
  functions: null,
  createdAt: 0,
};

test("a workload names folders by ids, and no path of any machine is in it", () => {
  const workload = workloadOf(APP, VERSION, { KEY: "value" });
  expect(workload).toMatchObject({
    projectId: "p-one",
    bundle: "bundles/p-one/app/version",
    environment: "environments/0123",
    variables: { APP_NAME: "app", PROJECT_ID: "p-one", BUILD_ID: "version", KEY: "value" },
  });
  expect(JSON.stringify(workload)).not.toMatch(/"\//);
});

verifies("seats.cold", "only an app that asks for it has an idle pod kept, and never one with a GPU", () => {
  const keepMs = (text: string, engine: { readonly reserves?: true }): number => {
    const toml = { text, fileName: "millrace.toml" };
    return templateKeepMs(readAppConfig({ toml, host: { cpuCount: 2 } }).config, engine);
  };
  const [here, elsewhere] = [{}, { reserves: true }] as const;
  expect([keepMs("", here), keepMs("", elsewhere)]).toEqual([900_000, 0]);
  const named = '[scaling]\ntemplate_keep = "15m"\n';
  expect([keepMs(named, here), keepMs(named, elsewhere)]).toEqual([900_000, 900_000]);
  const withGpu = `${named}[hardware]\ncompute = "T4"\n`;
  expect([keepMs(withGpu, here), keepMs(withGpu, elsewhere)]).toEqual([900_000, 0]);
});
