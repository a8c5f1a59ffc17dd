import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect } from "vitest";
import { testDatabases } from "../support/databases.ts";
import { DeployClient } from "../support/deploy-client.ts";
import { KillableService } from "../support/killable-service.ts";
import {
  BASE,
  IMAGE_REGISTRY,
  buildingImages,
  imageSpaces,
  withDockerfile,
} from "../support/kubernetes/image-site.ts";
import type { ImageSite, ImageSpaces } from "../support/kubernetes/image-site.ts";
import { processesOf } from "../support/kubernetes/pod-process.ts";
import { environmentOf } from "../support/kubernetes/pod-service.ts";
import { SilentProxy } from "../support/silent-proxy.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();
const SLEEPING = withDockerfile(`FROM ${BASE}\nRUN echo asleep; sleep 600\n`);
const SMALL = withDockerfile(`FROM ${BASE}\nCMD ["true"]\n`);

/** A build that has come to where it sleeps. */
async function asleep({ site }: ImageSite, app: string, zip = SLEEPING): Promise<string> {
  const { buildId, uploadUrl } = await site.begin(app);
  await site.put(uploadUrl, zip);
  await site.logged(app, buildId, "asleep");
  return buildId;
}

/** Why a build failed that has ended, or will; nothing of it is left then. */
async function failure(on: ImageSite, app: string, buildId: string): Promise<string | null> {
  expect(await on.site.ended(app, buildId)).toBe("build_failure");
  await nothingLeft(on);
  return await on.site.message(app, buildId);
}

async function nothingLeft({ apps, images }: Pick<ImageSpaces, "apps" | "images">): Promise<void> {
  await Promise.all([apps.untilEmpty(), images.untilEmpty()]);
}

/** A process of the only pod that builds, by how it was started. */
async function processIn({ images }: ImageSite, command: string): Promise<number> {
  const [pod = ""] = await images.left(["pods"]);
  const started = (pid: number): string => readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  const [found] = processesOf(path.basename(pod)).filter((pid) => started(pid).startsWith(command));
  if (found === undefined) throw new Error(`${pod} has no ${command} on this machine`);
  return found;
}

describe.skipIf(!IMAGE_REGISTRY)("faults while images are built", () => {
  verifies(
    ["buildkit.reasons", "buildkit.left"],
    "BuildKit or the agent is killed: the build fails with what to do, and nothing is left",
    async () => {
      const on = await buildingImages(databases);
      const builder = await asleep(on, "builder");
      process.kill(await processIn(on, "buildkitd"), "SIGKILL");
      expect(await failure(on, "builder", builder)).toMatch(
        /^the build's seat \S+ ended: BuildKit ended \(.*; deploy again$/s,
      );
      const agent = await asleep(on, "agent");
      process.kill(await processIn(on, "python3 -I /opt/millrace"), "SIGKILL");
      expect(await failure(on, "agent", agent)).toMatch(
        /^the build's seat \S+ ended: killed by SIGKILL; deploy again$/,
      );
    },
  );

  verifies("buildkit.reasons", "a registry that is away, or refuses the login, is the reason", async () => {
    const [address = "", port = ""] = IMAGE_REGISTRY!.host.split(":");
    const way = await SilentProxy.openTo(Number(port), address);
    const { host } = new URL(way.url);
    const on = await buildingImages(databases, {}, { host });
    const zip = withDockerfile(`FROM ${BASE}\nRUN echo asleep; sleep 3\nCMD ["true"]\n`);
    const away = await asleep(on, "app", zip);
    way.reset();
    expect(await failure(on, "app", away)).toMatch(
      /^the image could not be pushed, deploy again when the registry answers: /,
    );
    way.speak();
    const refused = await buildingImages(databases, {}, { host, password: "wrong" });
    const { buildId } = await refused.site.deploy("app", SMALL);
    expect(await failure(refused, "app", buildId)).toMatch(
      /^the image could not be pushed: the operator has to give MILLRACE_REGISTRY_SECRET a login/,
    );
    // It has an image to run now; that its command ends at once is another matter.
    const back = await on.site.deploy("app", SMALL);
    expect(await on.site.log("app", back.buildId)).toContain("image ready in");
    await nothingLeft(on);
  });

  verifies(
    "buildkit.reasons",
    "a build that takes more disk than it may is ended, which is said",
    async () => {
      const on = await buildingImages(databases, { buildkitDiskBytes: 100_000_000 });
      const write = "f = open('/big', 'wb'); [f.write(bytes(1000000)) for n in range(300)]; f.close()";
      // The cluster looks in its own time.
      const run = `RUN python3 -c "${write}" && sleep 600`;
      const { buildId } = await on.site.deploy("app", withDockerfile(`FROM ${BASE}\nUSER 0\n${run}\n`));
      expect(await failure(on, "app", buildId)).toMatch(/evicted by the cluster: .*millrace-buildkit-disk/);
    },
  );

  for (const how of ["kill", "stop"] as const)
    verifies("buildkit.left", `the service ends during the build (${how}): so does the deploy`, async () => {
      const { flags, ...spaces } = await imageSpaces();
      const database = await databases.fresh("postgres");
      const app = { main: "def run():\n    return 1\n" };
      const service = await KillableService.deploy(database, app, environmentOf(flags), false);
      const { projectId, token } = service;
      const client = (): DeployClient =>
        new DeployClient({ baseUrl: service.baseUrl, projectId, token }, "image");
      await service.start();
      const begun = await client().begin();
      expect(await client().put(begun, new Uint8Array(SLEEPING))).toBe(200);
      await until("it builds", async () => (await client().log(begun.buildId)).join().includes("asleep"));
      await service[how]();
      await service.start();
      expect(await client().ended(begun.buildId)).toBe("build_failure");
      const [build] = await client().list();
      expect(build?.message).toMatch(/^the (?:node that built it ended|service stopped .*); deploy again$/);
      await nothingLeft(spaces);
      await service.stop();
    });
});
