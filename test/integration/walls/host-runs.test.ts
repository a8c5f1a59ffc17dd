import { existsSync, mkdirSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { requireOffered } from "../../support/walls/walled.ts";
import { TRIED_RUNGS } from "../../support/walls/tried-rungs.ts";
import { verifies } from "../../verifies.ts";
import { buildPlace, evaluate, servicePython } from "../builds/site.ts";

/** Put into the home of a build: Python runs it at each start that looks for packages there. */
const PLANT = `import os, site, sys
proof = sys.argv[1]
folder = site.getusersitepackages()
os.makedirs(folder)
with open(folder + "/planted.pth", "w") as file:
    file.write("import os; os.path.isdir(%r) and open(%r, 'w').close()" % (os.path.dirname(proof), proof))
`;

for (const rung of TRIED_RUNGS.filter((each) => each !== "process")) {
  verifies(
    "builds.no-service-runs",
    `on ${rung} nothing that commands leave in their home runs outside the walls`,
    async (context) => {
      await requireOffered(rung, context);
      const place = await buildPlace();
      // Out of every build's reach, so that only what runs outside can write it.
      const proof = path.join(place.dataDir, "outside", "proof");
      mkdirSync(path.dirname(proof));
      const toml = `[deployment]\npre_build_commands = [${JSON.stringify(`python plant.py ${proof}`)}]\n`;
      const wheels = { "": [{ name: "one", version: "1.0" }] };
      const files = { "plant.py": PLANT, "requirements.txt": "./one-1.0-py3-none-any.whl\n" };
      // Not a virtual environment, which has no packages at home.
      const { path: own, version } = await servicePython();
      const python = { path: await evaluate(own, "import sys; print(sys._base_executable)"), version };
      await place.build(files, { toml, wheels, rung, python });
      expect(existsSync(proof)).toBe(false);
    },
  );
}
