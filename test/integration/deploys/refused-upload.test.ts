import { expect } from "vitest";
import { DeployClient } from "../../support/deploy-client.ts";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

const UPLOADS = 10;
/** Far more than sockets hold: the sender is still sending when it is refused. */
const BYTES = 16 * 1024 * 1024;

verifies("deploy.upload.refused", "whoever uploads to a disk without room hears why, each time", async () => {
  const { service } = await testService({}, { diskReserve: "1000TB" });
  const { baseUrl, owner } = service;
  const client = new DeployClient({ ...owner, baseUrl }, "app");
  for (let upload = 0; upload < UPLOADS; upload++) {
    const { uploadUrl } = await client.begin();
    const response = await fetch(uploadUrl, { method: "PUT", body: new Uint8Array(BYTES) });
    const { message } = (await response.json()) as { message: string };
    expect([response.status, message]).toEqual([503, expect.stringContaining("MILLRACE_DISK_RESERVE")]);
  }
});
