import { beforeAll, describe, expect } from "vitest";
import { processesIn } from "../../support/leak-check.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { makeZip } from "../../support/zip-maker.ts";
import { verifies } from "../../verifies.ts";
import { DeploySite, answering, bundle } from "./site.ts";

const service = sharedService();
const here = (): DeploySite => new DeploySite(service());

type Broken = {
  readonly what: string;
  readonly zip: Buffer;
  readonly payload?: object;
  readonly status: string;
  readonly message: RegExp;
  /** What the log has besides. */
  readonly logged?: RegExp;
};

const BROKEN: readonly Broken[] = [
  {
    what: "a requirement that cannot be read",
    zip: bundle(answering("x"), { "millrace.toml": '[dependencies.pip]\n"left pad" = ""\n' }),
    status: "build_failure",
    message: /left pad/,
  },
  {
    what: "a requirement that no index has",
    zip: bundle(answering("x"), {
      "requirements.txt": "--no-index\nmillrace-no-such-package==9.9\n",
    }),
    status: "build_failure",
    message: /millrace-no-such-package/,
  },
  {
    what: "a syntax error",
    zip: bundle("def run(:\n    return 1\n"),
    status: "build_failure",
    message: /main\.py.*line 1.*/,
  },
  {
    what: "an import that raises",
    zip: bundle("import os\n\ndef load():\n    raise RuntimeError('no weights here')\n\nload()\n"),
    status: "init_failure",
    message: /^RuntimeError: no weights here$/,
    logged: /File "main\.py", line 4, in load/,
  },
  {
    what: "an import of a module that is not there",
    zip: bundle("import no_such_module_at_all\n"),
    status: "init_failure",
    message: /No module named 'no_such_module_at_all'/,
  },
  {
    what: "an import that ends the process",
    zip: bundle("import os\nos._exit(3)\n"),
    status: "init_failure",
    message: /3/,
  },
  {
    what: "an import that never ends",
    zip: bundle("import threading\nthreading.Event().wait()\n"),
    payload: { deploymentInitializationTimeout: 1 },
    status: "init_timeout",
    message: /deployment_initialization_timeout/,
  },
  {
    what: "a setup() that raises",
    zip: bundle("def setup():\n    raise RuntimeError('no weights here')\n"),
    status: "init_failure",
    message: /^RuntimeError: no weights here$/,
    logged: /File "main\.py", line 2, in setup/,
  },
  {
    what: "a setup() that never ends",
    zip: bundle("import threading\ndef setup():\n    threading.Event().wait()\n"),
    payload: { deploymentInitializationTimeout: 1 },
    status: "init_timeout",
    message: /deployment_initialization_timeout/,
  },
  {
    what: "a setup() with a required parameter",
    zip: bundle("def setup(model):\n    return 1\n"),
    status: "init_failure",
    message:
      /^TypeError: setup\(\) in main\.py .* requires model: remove the parameters or give them defaults/,
  },
  {
    what: "a setup() that yields",
    zip: bundle("def setup():\n    yield 1\n"),
    status: "init_failure",
    message: /^TypeError: setup\(\) in main\.py is a generator/,
  },
  {
    what: "a main.py that is missing",
    zip: makeZip([{ name: "app.py", content: "x = 1\n" }]),
    status: "build_failure",
    message: /main\.py/,
  },
  {
    what: "a folder instead of its contents",
    zip: makeZip([{ name: "hello/main.py", content: answering("x") }]),
    status: "build_failure",
    message: /hello/,
  },
  {
    what: "a file that is no zip",
    zip: Buffer.from("hello"),
    status: "build_failure",
    message: /zip/,
  },
  {
    what: "an empty upload",
    zip: Buffer.alloc(0),
    status: "build_failure",
    message: /empty|zip/,
  },
  {
    what: "a command that fails",
    zip: bundle(answering("x")),
    payload: { shellCommands: ["echo before >&2; exit 7"] },
    status: "build_failure",
    message: /exit.*7|7/,
    logged: /before/,
  },
  {
    what: "a server whose program is missing",
    zip: bundle(answering("x")),
    payload: { runtime: "custom", entrypoint: ["./serve"], port: 8000 },
    status: "init_failure",
    message: /cannot start: \.\/serve: No such file or directory/,
  },
  {
    what: "a function with a name that is taken",
    zip: bundle("def runs():\n    return 1\n"),
    status: "init_failure",
    message: /"runs"/,
  },
];

describe("a deploy that fails ends in a final state with the line a person needs:", () => {
  beforeAll(async () => {
    expect((await here().deploy("app", bundle(answering("good")))).status).toBe("success");
  });

  for (const { what, zip, payload = {}, status, message, logged } of BROKEN) {
    verifies(["deploy.check", "deploy.failed", "builds.status", "builds.logs"], what, async () => {
      const site = here();
      const before = await site.bundles("app");
      const failed = await site.deploy("app", zip, payload);
      expect([failed.status, await site.message("app", failed.buildId)]).toEqual([
        status,
        expect.stringMatching(message),
      ]);
      const log = await site.log("app", failed.buildId);
      // The reason is the last thing said.
      expect(log.split("\n").at(-1)).toMatch(message);
      if (logged) expect(log).toMatch(logged);
      expect(await site.answer("app")).toBe("good");
      expect(await site.leftovers()).toEqual([]);
      expect(await site.bundles("app")).toEqual(before);
      expect(await site.test.service.store.versions.find(failed.buildId)).toBeNull();
      const { json } = await site.ask("GET", `apps/${site.appId("app")}`);
      expect(json).toMatchObject({ status: "ready", lastBuildStatus: status, latestBuildId: failed.buildId });
      await until(
        "its processes are gone",
        () => processesIn(`${site.test.settings.dataDir}/work`).length === 0,
      );
    });
  }
});

verifies(
  "apps.status",
  "an app whose first deploy failed is in error, and the next one mends it",
  async () => {
    const site = here();
    const status = async (): Promise<string> =>
      (await site.ask("GET", `apps/${site.appId("first")}`)).json.status;
    await site.begin("first");
    expect(await status()).toBe("pending");
    await site.deploy("first", bundle("raise ValueError('no')\n"));
    expect(await status()).toBe("error");
    const listed = (await site.ask("GET", "apps")).json as { id: string; status: string }[];
    expect(listed.find(({ id }) => id === site.appId("first"))?.status).toBe("error");
    expect((await site.test.call("first")).status).toBe(503);
    const { buildId, uploadUrl } = await site.begin("first", { shellCommands: ["sleep 600"] });
    await site.put(uploadUrl, bundle(answering("x")));
    await until("it is deploying", async () => (await status()) === "deploying");
    await site.cancel("first", buildId);
    expect((await site.deploy("first", bundle(answering("mended")))).status).toBe("success");
    expect(await status()).toBe("ready");
    expect(await site.answer("first")).toBe("mended");
  },
);
