import { existsSync, readdirSync } from "node:fs";
import { constants } from "node:os";
import path from "node:path";
import { expect } from "vitest";
import { testProgram } from "../../support/command-line.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { type BegunDeploy, DeployClient } from "../../support/deploy-client.ts";
import { FAULT_LENGTH } from "../../support/fault-length.ts";
import { KillableService } from "../../support/killable-service.ts";
import { endLeases } from "../../support/leases.ts";
import { until } from "../../support/until.ts";
import { zipOf } from "../../support/zip.ts";
import { verifies } from "../../verifies.ts";

const IS_FULL = FAULT_LENGTH === "full";
const SCRIPT = testProgram("kill-point");

/** A version whose answer is whole only if all its files are of one deploy. */
function bundle(mark: string, { main = "", toml = "", files = 0 } = {}): Record<string, string> {
  const many = Array.from({ length: files }, (_, i): [string, string] => [`data/${i}.txt`, mark]);
  return {
    "main.py": `import helper\n${main}\n\ndef run():\n    return [${JSON.stringify(mark)}, helper.MARK, open("mark.txt").read()]\n`,
    "helper.py": `MARK = ${JSON.stringify(mark)}\n`,
    "mark.txt": mark,
    "millrace.toml": toml,
    ...Object.fromEntries(many),
  };
}

type Site = {
  readonly service: KillableService;
  readonly client: DeployClient;
  /** What this deploy's version answers with. */
  readonly mark: string;
};

/** A deploy that met the end of its service, perhaps with the word that its upload had come. */
type Met = BegunDeploy & { readonly isUploaded?: boolean };

type Kill = {
  /** The step of the deploy, and the moment in it. */
  readonly at: string;
  /** A write around which the service ends itself: its name, the moment, a part of what is written. */
  readonly point?: readonly [name: string, moment: "before" | "after", part?: string];
  /** Makes the deploy, and ends the service where it does not end itself; the upload may be unfinished. */
  readonly meet: (site: Site) => Promise<Met | null>;
  /** In the short form too, which has one of each step, or even where all other tests run. */
  readonly isIn?: "short" | "minimal";
};

async function begin({ client }: Site): Promise<BegunDeploy | null> {
  return await client.begin().catch(() => null);
}

/** Deploys until the service is gone. */
async function deploy(site: Site, files = bundle(site.mark)): Promise<BegunDeploy | null> {
  const begun = await begin(site);
  if (begun) await site.client.put(begun, await zipOf(files)).catch(() => undefined);
  return begun;
}

/** Kills the service when something of the deploy is to be seen. */
async function killWhen(
  site: Site,
  what: string,
  files: Record<string, string>,
  isSeen: (begun: BegunDeploy) => boolean | Promise<boolean>,
): Promise<BegunDeploy | null> {
  const begun = await site.client.begin();
  const zip = await zipOf(files);
  const putting = site.client.put(begun, zip).catch(() => undefined);
  await until(what, () => isSeen(begun));
  await site.service.kill();
  await putting;
  return begun;
}

const KILLS: readonly Kill[] = [
  { at: "upload, before the build is stored", point: ["builds.insert", "before"], meet: begin },
  { at: "upload, when the build is stored", point: ["builds.insert", "after"], meet: begin },
  {
    at: "upload, amid the zip",
    isIn: "short",
    meet: async ({ service, client, mark }) => {
      const begun = await client.begin();
      const zip = await zipOf(bundle(mark));
      let end = (): void => {};
      const half = new ReadableStream<Uint8Array>({
        start: (stream) => {
          stream.enqueue(zip.subarray(0, zip.length / 2));
          end = () => stream.error(new Error("the test is over"));
        },
      });
      const putting = client.put(begun, half).catch(() => undefined);
      const uploads = path.join(service.database.dataDir, "uploads");
      await until("half of the zip is there", () => isFilled(uploads));
      await service.kill();
      end();
      await putting;
      return begun;
    },
  },
  {
    at: "upload, when it has come and another build is under way",
    meet: async (site) => {
      const { service, client, mark } = site;
      const first = await client.begin();
      const toml = '[deployment]\nshell_commands = ["echo begun && sleep 60"]\n';
      expect(await client.put(first, await zipOf(bundle("never", { toml })))).toBe(200);
      await until("the first one builds", async () => (await client.log(first.buildId)).includes("begun"));
      const second = await client.begin();
      expect(await client.put(second, await zipOf(bundle(mark)))).toBe(200);
      await service.kill();
      return { ...second, isUploaded: true };
    },
  },
  {
    at: "extract, before it begins",
    point: ["builds.move", "before", '"to":"building"'],
    meet: deploy,
  },
  { at: "extract, as it begins", point: ["builds.move", "after", '"to":"building"'], meet: deploy },
  {
    at: "extract, amid many files",
    isIn: "short",
    meet: (site) =>
      killWhen(
        site,
        "files are extracted",
        bundle(site.mark, { files: IS_FULL ? 3_000 : 1_000 }),
        async ({ buildId }) =>
          isFilled(path.join(site.service.database.dataDir, "work", buildId)) ||
          // Between two looks it may have got further: then it meets its end there.
          !["pending", "building"].includes(await site.client.status(buildId)),
      ),
  },
  {
    at: "build, amid a command",
    isIn: "minimal",
    meet: (site) => {
      const toml = '[deployment]\nshell_commands = ["touch half-made && echo begun && sleep 60"]\n';
      return killWhen(site, "the command runs", bundle(site.mark, { toml }), async ({ buildId }) =>
        (await site.client.log(buildId)).includes("begun"),
      );
    },
  },
  {
    at: "check, before it is stored",
    point: ["builds.move", "before", '"to":"initializing"'],
    meet: deploy,
  },
  { at: "check, before the version is stored", point: ["versions.insert", "before"], meet: deploy },
  {
    at: "check, when the version is stored",
    point: ["versions.insert", "after"],
    meet: deploy,
    isIn: "short",
  },
  {
    at: "check, amid the import",
    isIn: "short",
    meet: (site) =>
      killWhen(
        site,
        "the replica starts",
        bundle(site.mark, { main: "import time\ntime.sleep(60)" }),
        async ({ buildId }) => (await site.client.status(buildId)) === "initializing",
      ),
  },
  { at: "switch, before it is stored", point: ["apps.setCurrentVersion", "before"], meet: deploy },
  {
    at: "switch, when it is stored",
    point: ["apps.setCurrentVersion", "after"],
    meet: deploy,
    isIn: "minimal",
  },
  { at: "switch, before its end", point: ["builds.move", "before", '"to":"success"'], meet: deploy },
  {
    at: "switch, after its end",
    point: ["builds.move", "after", '"to":"success"'],
    meet: deploy,
  },
];

function isTried({ isIn }: Kill): boolean {
  return IS_FULL || isIn === "minimal" || (FAULT_LENGTH === "short" && isIn === "short");
}

const databases = testDatabases();

for (const kind of IS_FULL ? DATABASE_KINDS : (["sqlite"] as const)) {
  verifies(
    "deploy.kill",
    `kill -9 at any step of a deploy leaves one version whole, the build ended and nothing half-made, on ${kind}`,
    async () => {
      const { "main.py": main = "", "millrace.toml": toml = "", ...files } = bundle("first");
      const service = await KillableService.deploy(await databases.fresh(kind), { main, toml, files });
      let current = "first";
      let check = async (): Promise<void> => {};
      for (const [place, kill] of KILLS.entries()) {
        if (!isTried(kill)) continue;
        const mark = `deploy-${place}`;
        await start(service, kill.point);
        await check();
        if (kill.point) await arm(service);
        const begun = await kill.meet({ service, client: clientOf(service), mark });
        // By itself, or told by the shell above it.
        const end = kill.point ? "SIGKILL" : 128 + constants.signals.SIGKILL;
        expect({ at: kill.at, end: await service.command.exited }).toEqual({ at: kill.at, end });
        await endLeases(service.database);
        // By the service that is killed next.
        check = async () => {
          current = await expectWhole(service, kill.at, begun, { before: current, mark });
        };
      }
      await start(service);
      await check();
      await service.stop();
      expect(current).not.toBe("first");
    },
    IS_FULL ? 900_000 : undefined,
  );
}

function clientOf(service: KillableService): DeployClient {
  return new DeployClient(service, "app");
}

async function start(service: KillableService, point?: Kill["point"]): Promise<void> {
  const program =
    point && ([process.execPath, SCRIPT, ...point.filter((part) => part !== undefined)] as const);
  expect(await service.start(program)).toBe(true);
}

/** From now on the service ends at its point. */
async function arm({ command }: KillableService): Promise<void> {
  process.kill(command.pid, "SIGUSR2");
  await command.printed(/^armed$/m);
}

/** What serves after the next start, and that nothing else is left; resolves with its mark. */
async function expectWhole(
  service: KillableService,
  at: string,
  begun: Met | null,
  { before, mark }: { before: string; mark: string },
): Promise<string> {
  const client = clientOf(service);
  // A deploy whose upload never ended goes on where it was.
  if (begun && !begun.isUploaded && (await client.status(begun.buildId)) === "pending") {
    expect(await client.put(begun, await zipOf(bundle(mark)))).toBe(200);
    expect({ at, status: await client.ended(begun.buildId) }).toEqual({ at, status: "success" });
  }
  const builds = await client.list();
  const status = builds.find(({ id }) => id === begun?.buildId)?.status;
  const serving = status === "success" ? mark : before;
  const { json } = await service.post({});
  expect({ at, answer: json.result }).toEqual({ at, answer: [serving, serving, serving] });
  const unfinished = builds.filter((build) => !["success", "build_failure"].includes(build.status));
  const hopeful = builds.filter(({ id, status: known }) => known === "pending" && id !== begun?.buildId);
  expect({ at, unfinished }).toEqual({ at, unfinished: hopeful });
  if (IS_FULL) console.log({ at, status, serving });
  const succeeded = builds.filter((build) => build.status === "success").map(({ id }) => id);
  expect({ at, left: leftIn(service, succeeded) }).toEqual({ at, left: [] });
  return serving;
}

/** Files and folders of deploys that belong to no version. */
function leftIn(
  { database: { dataDir }, projectId }: KillableService,
  versions: readonly string[],
): string[] {
  const temporary = ["uploads", "work", "environments"].flatMap((name) =>
    namesIn(path.join(dataDir, name)).map((file) => `${name}/${file}`),
  );
  const bundles = namesIn(path.join(dataDir, "bundles", projectId, "app"));
  return [
    ...temporary,
    ...bundles.filter((name) => !versions.includes(name)).map((name) => `bundles/${name}`),
  ];
}

function namesIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}

function isFilled(folder: string): boolean {
  return namesIn(folder).length > 0;
}
