import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
import { Containers } from "../../../src/host/containers/containers.ts";
import { verifies } from "../../verifies.ts";
import { type BuildOptions, type BuildPlace, buildPlace } from "./site.ts";

const DOCKERFILE = '[runtime.custom]\ndockerfile_path = "Dockerfile"\nport = 8000\n';
const BASE = '[deployment]\ndocker_base_image_url = "debian:12"\n';
const BROKEN = { "main.py": "def run():\n    return 1\n", "lib/old.py": "print 'hello'\n" };
/** As podman prints a package that has no compiler. */
const NO_COMPILER = `echo 'STEP 4/5: RUN pip install psycopg2'
echo "      error: command 'gcc' failed: No such file or directory" >&2
echo 'Error: building at STEP "RUN pip install psycopg2": exit status 1' >&2
exit 1`;

/** A host whose podman fails every build in that way, and leaves a file that says that it was asked. */
async function withPodman(place: BuildPlace): Promise<{ options: BuildOptions; asked: () => boolean }> {
  const folder = path.join(place.directory, "bin");
  const trace = path.join(place.directory, "asked");
  await mkdir(folder);
  const info = {
    version: { Version: "5.4.0" },
    host: { security: { rootless: true } },
    store: { graphDriverName: "vfs", graphRoot: path.join(place.directory, "store") },
  };
  const script = `#!/bin/sh
case "$*" in
  *info*) echo '${JSON.stringify(info)}';;
  *" build "*) touch ${trace}
${NO_COMPILER};;
esac
`;
  await writeFile(path.join(folder, "podman"), script, { mode: 0o755 });
  const host = { ...place.host, PATH: `${folder}:${place.host["PATH"]}` };
  const containers = new Containers({ containerEngine: "podman", dataDir: place.dataDir }, host);
  return {
    options: { host, images: { containers, baseImage: "debian:12" } },
    asked: () => existsSync(trace),
  };
}

verifies(
  "deploy.syntax",
  "an app with an image is refused before the image is built, in a dry run too",
  async () => {
    const place = await buildPlace();
    const { options, asked } = await withPodman(place);
    for (const toml of [DOCKERFILE, BASE]) {
      const files = { ...BROKEN, Dockerfile: "FROM debian:12" };
      const input = { ...options, toml, checksSyntax: true };
      const refusal = expect.stringMatching(
        /^lib\/old\.py, line 1: SyntaxError: .*, as Python 3\.\S+ reads it \(the image may have another\)\. Fix it or .* --disable-syntax-check$/,
      );
      expect((await place.failure(files, input)).message).toEqual(refusal);
      expect((await place.inspect(files, input)).problems).toEqual([refusal]);
      expect(asked()).toBe(false);
    }
    const { message } = await place.failure(BROKEN, { ...options, toml: BASE });
    expect([asked(), message]).toEqual([true, expect.stringMatching(/^the image could not be built/)]);
  },
);

verifies("deploy.compiler", "an image that lacks a compiler is answered with where it goes", async () => {
  const place = await buildPlace();
  const { options } = await withPodman(place);
  const listed = await place.failure({}, { ...options, toml: BASE });
  expect(listed.message).toMatch(
    /^the image could not be built: .*exit status 1\. A package has to be compiled, and gcc is missing: add build-essential to \[dependencies\.apt\]$/,
  );
  const own = await place.failure({ Dockerfile: "FROM debian:12" }, { ...options, toml: DOCKERFILE });
  expect(own.message).toMatch(
    /exit status 1\. gcc is missing in the image: have the Dockerfile install build-essential before this step$/,
  );
});
