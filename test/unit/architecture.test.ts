import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  barrels,
  dashboardFaults,
  engineFaults,
  layerFaults,
  longFiles,
  slotFaults,
  specifierFaults,
} from "../support/architecture-rules.ts";
import { findCircles, importGraph, specifiersOf } from "../support/import-graph.ts";
import { BY_NAME, EVERY_TIME } from "../support/projects.ts";
import { pythonGraph } from "../support/python-imports.ts";
import { readSources, REPOSITORY } from "../support/source-files.ts";
import { verifies } from "../verifies.ts";

const source = readSources(["src"], [".ts"]);
const everything = readSources(
  ["src", "python", "web", "scripts", "test", "bench", "bin", "examples"],
  [".ts", ".tsx", ".css", ".py", ".mjs"],
);
const manifest = JSON.parse(readFileSync(join(REPOSITORY, "package.json"), "utf8")) as {
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
  scripts: Record<string, string>;
};
const dependencies = new Set(Object.keys(manifest.dependencies));

describe("the house as it stands", () => {
  test("the parser sees the imports that are there", () => {
    let imports = 0;
    const overlooked: string[] = [];
    for (const [path, text] of source) {
      const plain = text.split("\n").filter((line) => /^(?:import|export) .* from "|^\} from "/.test(line));
      const seen = specifiersOf(text).length;
      if (seen < plain.length) overlooked.push(path);
      imports += seen;
    }
    expect(overlooked).toEqual([]);
    expect(source.size).toBeGreaterThan(10);
    expect(imports).toBeGreaterThan(source.size / 2);
  });

  verifies("design.layers", "imports go down, never up or sideways", () => {
    expect(layerFaults(source)).toEqual([]);
  });

  test("only main.ts knows which engine there is", () => {
    expect(engineFaults(source)).toEqual([]);
  });

  test("node:http is imported in one place, without what makes each start slow", () => {
    const values = /^import (?!type ).* from "node:http";|import\("node:http"\)/m;
    expect([...source].filter(([, text]) => values.test(text)).map(([path]) => path)).toEqual([]);
    expect(source.get("src/kit/node-http.ts")).toContain('process.getBuiltinModule("node:http")');
  });

  test("slots know nothing of wires and processes", () => {
    expect(
      [...source.keys()].filter((path) => path.startsWith("src/replicas/slots/")).length,
    ).toBeGreaterThan(5);
    expect(slotFaults(source)).toEqual([]);
  });

  verifies(
    "design.shapes",
    "the dashboard takes of src what browsers run and what the API looks like",
    () => {
      const both = readSources(["src", "web"], [".ts", ".tsx"]);
      expect(dashboardFaults(both)).toEqual([]);
      expect([...importGraph(both)].filter(([path]) => path.startsWith("web/")).length).toBeGreaterThan(100);
    },
  );

  verifies("design.layers", "no file imports itself, directly or through others", () => {
    expect(findCircles(importGraph(source))).toEqual([]);
    const python = pythonGraph(readSources(["python"], [".py"]));
    expect([...python.values()].flat().length).toBeGreaterThan(python.size);
    expect(findCircles(python)).toEqual([]);
  });

  test("every import of src names a .ts file that exists, node: or a dependency", () => {
    expect(specifierFaults(source, dependencies)).toEqual([]);
  });

  verifies("design.layers", "no file only gathers the exports of others", () => {
    expect(barrels(readSources(["src", "test", "bench"], [".ts"]))).toEqual([]);
  });

  verifies("show.no-long-file", "no file is longer than one idea", () => {
    expect(everything.size).toBeGreaterThan(source.size);
    expect(longFiles(everything)).toEqual([]);
  });

  verifies("start.npm-test", "every test file belongs to a project, and npm run test:all runs each", () => {
    expect(manifest.scripts["test"]).toBe("vitest run");
    const config = readFileSync(join(REPOSITORY, "vitest.config.ts"), "utf8");
    const projects = [...config.matchAll(/project\("([\w-]+)"/g)].map((match) => match[1]);
    expect(projects).toEqual([...EVERY_TIME, ...BY_NAME]);
    for (const name of projects) expect(manifest.scripts[`test:${name}`]).toBeDefined();
    const tests = [...readSources(["test", "src", "bench", "examples"], [".test.ts"]).keys()];
    expect(tests.length).toBeGreaterThan(0);
    const homeless = tests.filter((path) => !projects.some((name) => path.startsWith(`test/${name}/`)));
    expect(homeless).toEqual([]);
  });
});

describe("the rules find planted faults", () => {
  const planted = (files: Record<string, string>) => new Map(Object.entries(files));

  test("a circle between Python modules is found, inside a function too", () => {
    const files = planted({
      "python/p/a.py": "from . import os_like, b as other\n",
      "python/p/b.py": "def late():\n    from .a import thing\n",
    });
    expect(findCircles(pythonGraph(files))).toHaveLength(1);
  });

  test("an upward import is found, of a type too", () => {
    const files = planted({
      "src/kit/clock.ts": 'import type { Run } from "../model/run.ts";\n',
      "src/model/run.ts": "export type Run = string;\n",
    });
    expect(layerFaults(files)).toEqual(["src/kit/clock.ts imports upward: src/model/run.ts"]);
  });

  test("a sideways import is found", () => {
    const files = planted({
      "src/runs/execute.ts": 'export { deploy } from "../apps/deploy.ts";\n',
      "src/apps/deploy.ts": "export const deploy = 1;\n",
    });
    expect(layerFaults(files)).toEqual(["src/runs/execute.ts imports sideways: src/apps/deploy.ts"]);
  });

  test("an import of an engine's own files is found", () => {
    const files = planted({
      "src/main.ts": 'import { engine } from "./engines/local/engine.ts";\n',
      "src/apps/build.ts": 'import { engine } from "../engines/local/engine.ts";\n',
      "src/engines/local/engine.ts": "export const engine = 1;\n",
    });
    expect(engineFaults(files)).toEqual(["src/apps/build.ts knows an engine: src/engines/local/engine.ts"]);
  });

  test("an import by which slots learn of the wire is found, of a type too", () => {
    const files = planted({
      "src/replicas/slots/lanes.ts":
        'import type { Slot } from "./slot.ts";\nimport type { Frame } from "../frames.ts";\n',
      "src/replicas/slots/slot.ts": "export type Slot = 1;\n",
      "src/replicas/frames.ts": "export type Frame = 1;\n",
    });
    expect(slotFaults(files)).toEqual([
      "src/replicas/slots/lanes.ts knows more than slots: src/replicas/frames.ts",
    ]);
  });

  test("an import of the service's own by the dashboard is found", () => {
    const files = planted({
      "web/api/runs.ts":
        'import { RUN } from "../../src/shapes/runs.ts";\nimport type { Store } from "../../src/store/store.ts";\n',
      "src/shapes/runs.ts": "export const RUN = 1;\n",
      "src/store/store.ts": "export type Store = 1;\n",
    });
    expect(dashboardFaults(files)).toEqual([
      "web/api/runs.ts imports what is the service's: src/store/store.ts",
    ]);
  });

  test("imports of the own room and of lower layers are let through", () => {
    const files = planted({
      "src/main.ts": 'import { serve } from "./gateway/deep/serve.ts";\n',
      "src/gateway/deep/serve.ts":
        'import { route } from "../route.ts";\nimport { now } from "../../kit/now.ts";\n',
      "src/gateway/route.ts": "export const route = 1;\n",
      "src/kit/now.ts": "export const now = 1;\n",
    });
    expect(layerFaults(files)).toEqual([]);
  });

  test("a file in a folder the plan does not know is found", () => {
    const files = planted({ "src/utils/misc.ts": "", "src/stray.ts": "" });
    expect(layerFaults(files)).toEqual([
      "src/utils/misc.ts is in no room of the house plan",
      "src/stray.ts is in no room of the house plan",
    ]);
  });

  test("circles of one, two and three files are found, through every form of import", () => {
    const files = planted({
      "src/kit/self.ts": 'import "./self.ts";\n',
      "src/kit/a.ts": 'import { b } from "./b.ts";\n',
      "src/kit/b.ts": 'import type { A } from "./a.ts";\n',
      "src/kit/x.ts": 'const y = await import("./y.ts");\n',
      "src/kit/y.ts": 'const z = new Worker(new URL("./z.ts", import.meta.url));\n',
      "src/kit/z.ts": 'export * from "./x.ts";\n',
      "src/kit/free.ts": 'import { a } from "./a.ts";\n',
    });
    expect(findCircles(importGraph(files))).toEqual([
      "src/kit/self.ts → src/kit/self.ts",
      "src/kit/a.ts → src/kit/b.ts → src/kit/a.ts",
      "src/kit/x.ts → src/kit/y.ts → src/kit/z.ts → src/kit/x.ts",
    ]);
  });

  test("every form of import is read, and no comment is taken for one", () => {
    const text = [
      'import { readFile } from "node:fs/promises";',
      "import {",
      "  a,",
      "  // why b",
      "  type B,",
      '} from "./many.ts";',
      'import whole, * as rest from "pkg";',
      'export type { C } from "./types.ts";',
      'type D = import("./inline.ts").D;',
      "const thread = new URL(`./thread${import.meta.url.slice(-3)}`, import.meta.url);",
      'const either = new URL(isSource ? "./either.ts" : "./either.js", import.meta.url);',
      'const folder = new URL("../../python/", import.meta.url);',
      '// import { no } from "./comment.ts";',
      '/** See import("./doc.ts"). */',
      'export const from = "not an import";',
    ].join("\n");
    expect(specifiersOf(text).toSorted()).toEqual(
      [
        "node:fs/promises",
        "./many.ts",
        "pkg",
        "./types.ts",
        "./inline.ts",
        "./thread.ts",
        "./either.ts",
      ].toSorted(),
    );
  });

  test("a missing ending, a missing file and a package users lack are found", () => {
    const files = planted({
      "src/kit/a.ts": [
        'import { b } from "./b";',
        'import { c } from "./c.ts";',
        'import { fc } from "fast-check";',
        'import fs from "fs";',
        'import { z } from "zod/v4";',
        'import { join } from "node:path";',
      ].join("\n"),
    });
    expect(specifierFaults(files, new Set(["zod"]))).toEqual([
      "src/kit/a.ts imports without .ts: ./b",
      "src/kit/a.ts imports a missing file: ./c.ts",
      "src/kit/a.ts imports what is not in dependencies: fast-check",
      "src/kit/a.ts imports what is not in dependencies: fs",
    ]);
  });

  test("no development tool is a dependency at run time", () => {
    expect(Object.keys(manifest.devDependencies).filter((name) => dependencies.has(name))).toEqual([]);
  });

  test("a barrel is found by its name and by its content", () => {
    const files = planted({
      "src/kit/index.ts": "export const real = 1;\n",
      "src/kit/all.ts": '/** All. */\nexport * from "./a.ts";\nexport { b } from "./b.ts";\n',
      "src/kit/own.ts": 'export { b } from "./b.ts";\nexport const own = 1;\n',
    });
    expect(barrels(files)).toEqual(["src/kit/index.ts", "src/kit/all.ts"]);
  });

  test("a file of 501 lines is found and one of 500 is let through", () => {
    const files = planted({
      "src/kit/short.ts": "line\n".repeat(500),
      "python/long.py": "line\n".repeat(501),
    });
    expect(longFiles(files)).toEqual(["python/long.py has 501 lines, more than 500"]);
  });
});
