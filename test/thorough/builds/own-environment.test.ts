import path from "node:path";
import { describe, expect } from "vitest";
import { verifies } from "../../verifies.ts";
import { buildPlace, evaluate } from "../../integration/builds/site.ts";
import { testIndex, writeWheels } from "../../integration/builds/wheels.ts";

describe("commands", () => {
  verifies("deploy.commands", "commands that install have an environment of their own", async () => {
    const place = await buildPlace();
    const wheels = await writeWheels(path.join(place.directory, "wheels"), [
      { name: "one", version: "1.0", module: "x = 1" },
      { name: "two", version: "1.0", module: "x = 2" },
    ]);
    const { result } = await place.build(
      {},
      {
        host: place.withIndex((await testIndex(wheels)).url),
        toml: '[deployment]\nshell_commands = ["pip install two"]\n[dependencies.pip]\none = "latest"\n',
      },
    );
    expect(path.basename(result.environment!)).toMatch(/^p-builds00-own-/);
    expect(await evaluate(result.python!, "import one, two; print(one.x, two.x)")).toBe("1 2");
  });

  verifies("deploy.commands", "an environment of one build goes with its failure", async () => {
    const place = await buildPlace();
    const toml = '[deployment]\npre_build_commands = ["uv-less || exit 3"]\n';
    const { message } = await place.failure({}, { toml });
    expect(message).toMatch(/ended with exit code 3/);
    expect(await place.environments()).toEqual([]);
  });
});
