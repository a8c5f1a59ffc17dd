import { rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, expect } from "vitest";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { buildPlace, evaluate } from "../../integration/builds/site.ts";
import { testIndex, writeWheels } from "../../integration/builds/wheels.ts";

const WHEELS = [
  { name: "one", version: "1.0" },
  { name: "two", version: "1.0" },
];
const REUSED = "dependencies unchanged, reusing the environment";

describe("environments", () => {
  verifies("deploy.env-cache", "the same dependencies in another order are not installed again", async () => {
    const place = await buildPlace();
    const index = await testIndex(await writeWheels(path.join(place.directory, "wheels"), WHEELS));
    const host = place.withIndex(index.url);
    const first = await place.build({ "requirements.txt": "One\ntwo >= 1\n" }, { host });
    const asked = index.asked.length;
    const madeAt = (await stat(path.join(first.result.environment!, "pyvenv.cfg"))).mtimeMs;

    const second = await place.build(
      { "main.py": "# changed" },
      { host, toml: '[dependencies.pip]\ntwo = ">=1"\none = "*"\n' },
    );
    expect(second.result).toEqual(first.result);
    expect(second.lines).toEqual([REUSED]);
    expect(index.asked).toHaveLength(asked);
    expect((await stat(path.join(first.result.environment!, "pyvenv.cfg"))).mtimeMs).toBe(madeAt);

    const other = await place.build({ "requirements.txt": "one\n" }, { host });
    expect(other.result.environment).not.toBe(first.result.environment);
    expect(await place.environments()).toHaveLength(2);
  });

  verifies("deploy.env-cache", "a changed wheel in the bundle is another dependency", async () => {
    const place = await buildPlace();
    const files = { "requirements.txt": "./one-1.0-py3-none-any.whl\n" };
    const answers: string[] = [];
    for (const module of ["x = 1", "x = 2"]) {
      const wheels = { "": [{ name: "one", version: "1.0", module }] };
      const { result } = await place.build(files, { wheels });
      answers.push(await evaluate(result.python!, "import one; print(one.x)"));
    }
    expect(answers).toEqual(["1", "2"]);
  });

  verifies("deploy.env-cache", "a build that waited takes over when the other is cancelled", async () => {
    const place = await buildPlace();
    const wheels = await writeWheels(path.join(place.directory, "wheels"), WHEELS);
    const silent = await testIndex(wheels, { silentFor: "one" });
    const cancelling = new AbortController();
    const files = { "requirements.txt": "one\n" };
    const first = await place.begin(files, {
      host: place.withIndex(silent.url),
      signal: cancelling.signal,
    });
    await until("the index was asked", () => silent.asked.length > 0);
    const index = await testIndex(wheels);
    const second = await place.begin(files, { host: place.withIndex(index.url) });
    await until("it waits", () => second.lines.length > 0);
    expect(second.lines).toEqual(["another build is creating the same environment; waiting for it"]);
    cancelling.abort();
    await expect(first.done).rejects.toBe(cancelling.signal.reason);
    const { python } = await second.done;
    expect(await evaluate(python!, "import one; print('there')")).toBe("there");
  });

  verifies("deploy.env-cache", "what was never finished is made anew", async () => {
    const place = await buildPlace();
    const index = await testIndex(await writeWheels(path.join(place.directory, "wheels"), WHEELS));
    const host = place.withIndex(index.url);
    const files = { "requirements.txt": "one\n" };
    const { environment } = (await place.build(files, { host })).result;
    // As kill -9 leaves it: without the mark that is written last, and with something half-written.
    await writeFile(path.join(environment!, "half"), "");
    await rm(path.join(environment!, "ready"));
    const again = await place.build(files, { host });
    expect(again.result.environment).toBe(environment);
    expect(again.lines).not.toContain(REUSED);
    await expect(stat(path.join(environment!, "half"))).rejects.toThrow("ENOENT");
  });
});
