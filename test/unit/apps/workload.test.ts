import { expect, test } from "vitest";
import { workloadOf } from "../../../src/apps/workload.ts";
import { readAppConfig } from "../../../src/config/app-config.ts";
import type { App, Version } from "../../../src/model/app.ts";

const DATA_DIR = "/somewhere/data";
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
  bundleDir: `${DATA_DIR}/bundles/p-one/app/version`,
  bundleHash: null,
  environment: `${DATA_DIR}/environments/0123`,
  functions: null,
  createdAt: 0,
};

test("a workload names folders by ids, and no path of any machine is in it", () => {
  const workload = workloadOf(APP, VERSION, { KEY: "value" }, DATA_DIR);
  expect(workload).toMatchObject({
    projectId: "p-one",
    bundle: "bundles/p-one/app/version",
    environment: "environments/0123",
    variables: { APP_NAME: "app", PROJECT_ID: "p-one", BUILD_ID: "version", KEY: "value" },
  });
  expect(JSON.stringify(workload)).not.toMatch(/"\//);
});

test("it is the same wherever the data directory lies", () => {
  const moved = {
    ...VERSION,
    bundleDir: "/b/bundles/p-one/app/version",
    environment: "/b/environments/0123",
  };
  expect(workloadOf(APP, moved, {}, "/b")).toEqual(workloadOf(APP, VERSION, {}, DATA_DIR));
});

test("a folder outside the data directory has no id", () => {
  const stray = { ...VERSION, bundleDir: "/elsewhere/app" };
  expect(() => workloadOf(APP, stray, {}, DATA_DIR)).toThrow("/elsewhere/app is not in the data directory");
});
