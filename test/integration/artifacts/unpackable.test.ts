import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { DeployClient } from "../../support/deploy-client.ts";
import { WITHOUT_WALLS, testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";
import { zipOf } from "../../support/zip.ts";

const databases = testDatabases();

/** What a build may leave, by the command that does, and what is said of it. */
const LEFT: Record<string, string> = {
  "mkfifo data/left": '"data/left" is a named pipe',
  "ln -s /etc/hostname left": '"left" is a link to "/etc/hostname"',
  "touch \"$(printf 'left\\377')\"": '"left\uFFFD" has a name that is not UTF-8',
};

verifies(
  "builds.unpackable",
  "on Postgres a build that leaves what no other service could have fails, and names it",
  async () => {
    const { databaseUrl } = await databases.fresh("postgres");
    const { service } = await testService({}, { ...WITHOUT_WALLS, databaseUrl });
    const { projectId, token } = service.owner;
    const client = new DeployClient({ baseUrl: service.baseUrl, projectId, token }, "app");
    for (const [command, said] of Object.entries(LEFT)) {
      const toml = `[deployment]\nshell_commands = [${JSON.stringify(command)}]\n`;
      const files = { "main.py": "def run():\n    return 1\n", "millrace.toml": toml, "data/file": "" };
      const { buildId, status } = await client.deploy(await zipOf(files));
      const build = (await client.list()).find(({ id }) => id === buildId);
      expect([command, status, build?.message]).toEqual([
        command,
        "build_failure",
        `the bundle cannot be copied to other services: ${said}. Remove it in the last of shell_commands, or do not deploy it`,
      ]);
    }
    const plain = await zipOf({ "main.py": "def run():\n    return 1\n" });
    expect((await client.deploy(plain)).status).toBe("success");
  },
);
