import { existsSync, readdirSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, vi } from "vitest";
import { artifactFolders } from "../../../src/host/data-folders.ts";
import { testDatabases } from "../../support/databases.ts";
import { processesIn } from "../../support/leak-check.ts";
import { remoteService, type RemoteService } from "../../support/remote/remote-service.ts";
import { until } from "../../support/until.ts";
import { makeZip } from "../../support/zip-maker.ts";
import { verifies } from "../../verifies.ts";
import { writeWheels } from "../../integration/builds/wheels.ts";
import { cancelBuild } from "../../integration/remote/cancel-build.ts";
import { DeploySite, answering, bundle } from "../../integration/deploys/site.ts";

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
  "pod-builds.build",
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

verifies("pod-builds.reuse", "the same packages are not built again, and commands can use them", async () => {
  const { on, site } = await buildingElsewhere();
  const files = { "requirements.txt": `./${WHEEL}\n` };
  const first = await site.deploy("app", await polite(MAIN, files));
  expect(first.status).toBe("success");
  const zip = await polite(MAIN.replace("polite.word,", '"again",'), files);
  const second = await site.deploy("app", zip, {
    shellCommands: ["polite > a.made"],
  });
  const log = await site.log("app", second.buildId);
  expect([second.status, log]).toEqual(["success", expect.stringContaining("reusing the environment")]);
  expect(await site.answer("app")).toEqual(["again", "thanks", "thanks"]);
  const versions = await Promise.all(
    [first, second].map(({ buildId }) => on.service.store.versions.find(buildId)),
  );
  expect(versions[0]?.environmentBlob).toBe(versions[1]?.environmentBlob);
  // Another service would know of it by the version alone.
  await rm(artifactFolders(versions[0]!, on.settings.dataDir).environment ?? "", { recursive: true });
  const third = await site.deploy("app", zip);
  expect(await site.log("app", third.buildId)).toContain("reusing the environment");
});

verifies("pod-builds.own", "commands that install have packages of their own", async () => {
  const { on, site } = await buildingElsewhere();
  const { buildId, status } = await site.deploy("app", await polite(), {
    shellCommands: [`pip install --no-index ./${WHEEL}`, "polite > a.made"],
  });
  expect([status, await site.message("app", buildId)]).toEqual(["success", null]);
  expect(await site.answer("app")).toEqual(["please", "thanks", "thanks"]);
  const version = (await on.service.store.versions.find(buildId))!;
  expect(version.environment).toContain(`-own-${buildId}`);
});

verifies("pod-builds.failures", "what fails is told as on a plain host", async () => {
  const { on, site } = await buildingElsewhere();
  const failed = async (zip: Buffer, payload: object = {}): Promise<string> => {
    const { buildId, status } = await site.deploy("app", zip, payload);
    expect(status).toBe("build_failure");
    return (await site.message("app", buildId)) ?? "";
  };
  const fine = answering("fine");
  expect(await failed(bundle(fine), { preBuildCommands: ["echo oh no >&2; exit 3"] })).toBe(
    'pre_build_commands: "echo oh no >&2; exit 3" ended with exit code 3: oh no',
  );
  expect(await failed(bundle("def run(:\n"))).toMatch(/^main\.py, line 1: SyntaxError: invalid syntax/);
  expect(await failed(bundle(fine), { preBuildCommands: ["rm main.py"] })).toBe(
    "there is no main.py at the root of the bundle",
  );
  vi.stubEnv("PIP_NO_INDEX", "1");
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(await failed(bundle(fine, { "requirements.txt": "no-such-thing-at-all\n" }))).toMatch(
    /^pip could not install the packages from requirements\.txt: ERROR: /,
  );
  expect(await failed(bundle(fine), { preBuildCommands: ["mkfifo pipe"] })).toContain(
    "'pipe' is neither a file, a folder nor a link",
  );
  expect(await failed(bundle(fine), { shellCommands: ["ln -s /etc/passwd taken"] })).toContain(
    'the bundle could not be taken from where it was built: "taken" is a link to "/etc/passwd"',
  );
  const { dataDir } = on.settings;
  expect(
    existsSync(path.join(dataDir, "environments")) ? readdirSync(path.join(dataDir, "environments")) : [],
  ).toEqual([]);
  expect(await site.leftovers()).toEqual([]);
});

verifies(
  "pod-builds.refused",
  "images that would have to be built are refused with what to set",
  async () => {
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
  },
);

verifies("pod-builds.cancel", "a cancelled build ends its seat, and nothing of it is left", async () => {
  const building = await buildingElsewhere();
  const { site } = building;
  const { buildId, uploadUrl } = await site.begin("app", { preBuildCommands: ["echo asleep; sleep 600"] });
  await site.put(uploadUrl, bundle(answering("never")));
  await cancelBuild(building, buildId);
});

verifies("pod-builds.lost", "kill -9 of the agent fails the build, and ends its steps", async () => {
  const { place, site, folder } = await buildingElsewhere();
  const { buildId, uploadUrl } = await site.begin("app", {
    preBuildCommands: ["echo asleep; (setsid sleep 600 &) ; sleep 600"],
  });
  await site.put(uploadUrl, bundle(answering("never")));
  await site.logged("app", buildId, "asleep");
  process.kill(place.seats[0]?.pid ?? 0, "SIGKILL");
  expect(await site.ended("app", buildId)).toBe("build_failure");
  expect(await site.message("app", buildId)).toMatch(
    /^the build's seat process \d+ ended: killed by SIGKILL; deploy again$/,
  );
  await until("its processes are gone", () => processesIn(folder).length === 0);
  for (const left of readdirSync(folder)) await rm(path.join(folder, left), { recursive: true });
});

verifies(
  "pod-builds.failures",
  "of a step that prints too much, the first and the last lines are told",
  async () => {
    const { site } = await buildingElsewhere();
    const many = "for n in range(200000): print('line', n)";
    const failing = await site.deploy("app", bundle(answering("never")), {
      shellCommands: [`python -c "${many}"; echo 'error: at last'; exit 4`],
    });
    expect(await site.message("app", failing.buildId)).toContain("ended with exit code 4: error: at last");
    const { status, buildId } = await site.deploy("app", bundle(answering("here")), {
      shellCommands: [`python -c "${many}"`],
    });
    expect([status, await site.message("app", buildId)]).toEqual(["success", null]);
    expect(await site.answer("app")).toBe("here");
  },
);
