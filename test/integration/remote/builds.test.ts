import { readdirSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { artifactFolders } from "../../../src/host/artifacts.ts";
import { testDatabases } from "../../support/databases.ts";
import { processesIn } from "../../support/leak-check.ts";
import { remoteService } from "../../support/remote/remote-service.ts";
import type { RemoteService } from "../../support/remote/remote-service.ts";
import { until } from "../../support/until.ts";
import { makeZip } from "../../support/zip-maker.ts";
import { verifies } from "../../verifies.ts";
import { writeWheels } from "../builds/wheels.ts";
import { cancelBuild } from "./cancel-build.ts";
import { DeploySite, answering, bundle } from "../deploys/site.ts";

const databases = testDatabases();
const WHEEL = "polite-1.0-py3-none-any.whl";
const MODULE = 'word = "please"\ndef main():\n    print("thanks")\n';
const MAIN = `
import os, polite, shutil, subprocess
HERE = os.path.dirname(os.path.abspath(__file__))
def run():
    made = [open(os.path.join(HERE, name)).read().strip() for name in sorted(os.listdir(HERE)) if name.endswith(".made")]
    said = subprocess.run([shutil.which("polite")], capture_output=True, text=True).stdout.strip()
    return [polite.word, said, *made]
`;

type Site = RemoteService & { readonly site: DeploySite };

async function buildingElsewhere(): Promise<Site> {
  const remote = await remoteService(databases, {}, { builds: true });
  return { ...remote, site: new DeploySite(remote.on) };
}

/** A bundle with a package of its own. */
async function polite(main = MAIN, files: Record<string, string> = {}): Promise<Buffer> {
  const folder = await mkdtemp(path.join(tmpdir(), "millrace-wheels-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeWheels(folder, [{ name: "polite", version: "1.0", module: MODULE, command: "polite" }]);
  const all = { "main.py": main, ...files, [WHEEL]: await readFile(path.join(folder, WHEEL)) };
  return makeZip(Object.entries(all).map(([name, content]) => ({ name, content })));
}

verifies(
  "elsewhere.build",
  "commands, packages and bytecode are made in a seat, and run in another",
  async () => {
    const { on, place, site, folder } = await buildingElsewhere();
    const zip = await polite();
    const { buildId, status } = await site.deploy("app", zip, {
      preBuildCommands: [`echo './${WHEEL}' > requirements.txt; echo before > a.made`],
      shellCommands: ['python -c "import polite; print(polite.word)" > b.made; pwd'],
    });
    const log = await site.log("app", buildId);
    expect([status, log]).toEqual(["success", expect.stringContaining("installing 1 package")]);
    expect(await site.answer("app")).toEqual(["please", "thanks", "before", "please"]);
    expect(place.seats.length).toBeGreaterThan(1);
    expect(log).toMatch(new RegExp(`^${folder}/millrace-seat-[^/]+/bundle$`, "m"));
    // Nothing of its packages is here, but where they are.
    const version = (await on.service.store.versions.find(buildId))!;
    const { environment, bundle: here } = artifactFolders(version, on.settings.dataDir);
    expect(readdirSync(environment ?? "").toSorted()).toEqual(["blob.json", "ready"]);
    expect(version.environmentTag).toMatch(/^3\.\d+ /);
    expect(readdirSync(path.join(here, "__pycache__"))).toContainEqual(
      expect.stringMatching(/^main\..*pyc$/),
    );
    await place.seats[0]?.exited;
    expect(await site.leftovers()).toEqual([]);
  },
);

verifies("elsewhere.refused", "images that would have to be built are refused with what to set", async () => {
  const { place, site } = await buildingElsewhere();
  const toml = '[runtime.custom]\ndockerfile_path = "Dockerfile"\nport = 8000\n';
  const { buildId, status } = await site.deploy(
    "app",
    bundle("", { "millrace.toml": toml, Dockerfile: "FROM scratch\n" }),
  );
  expect([status, await site.message("app", buildId)]).toEqual([
    "build_failure",
    "runtime.custom.dockerfile_path: this service builds no images in its cluster: the operator sets MILLRACE_REGISTRY to have " +
      "images built in the cluster (docs/kubernetes.md). Or build the image yourself, push it to a registry that the cluster " +
      "pulls from, and name it by its digest in deployment.docker_base_image_url, with runtime.custom.entrypoint to start the server",
  ]);
  const apt = '[deployment]\nrequire_image = true\n[dependencies.apt]\nffmpeg = "latest"\n';
  const other = await site.deploy("app", bundle(answering("x"), { "millrace.toml": apt }));
  expect(await site.message("app", other.buildId)).toMatch(
    /^require_image is set, but system packages are not installed .*: ffmpeg; the operator sets MILLRACE_REGISTRY/,
  );
  expect(place.seats).toEqual([]);
});

verifies("elsewhere.cancel", "a cancelled build ends its seat, and nothing of it is left", async () => {
  const building = await buildingElsewhere();
  const { site } = building;
  const { buildId, uploadUrl } = await site.begin("app", { preBuildCommands: ["echo asleep; sleep 600"] });
  await site.put(uploadUrl, bundle(answering("never")));
  await cancelBuild(building, buildId);
});

verifies("elsewhere.lost", "kill -9 of the agent fails the build, and ends its steps", async () => {
  const { place, site, folder } = await buildingElsewhere();
  const { buildId, uploadUrl } = await site.begin("app", {
    preBuildCommands: ["echo asleep; (setsid sleep 600 &) ; sleep 600"],
  });
  await site.put(uploadUrl, bundle(answering("never")));
  await site.logged("app", buildId, "asleep");
  process.kill(place.seats[0]?.pid ?? 0, "SIGKILL");
  expect(await site.ended("app", buildId)).toBe("build_failure");
  expect(await site.message("app", buildId)).toMatch(
    /^the build's seat process \d+ ended: killed by SIGKILL$/,
  );
  await until("its processes are gone", () => processesIn(folder).length === 0);
  for (const left of readdirSync(folder)) await rm(path.join(folder, left), { recursive: true });
});
