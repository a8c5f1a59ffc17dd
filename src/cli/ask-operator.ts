import type { Settings } from "../config/setting-keys.ts";
import type { OperatorRequests } from "../identity/operator-requests.ts";
import { askService } from "./ask-service.ts";

/** Asks the service, or the data directory itself when none runs on it. */
export async function askOperator<Name extends keyof OperatorRequests>(
  settings: Settings,
  name: Name,
  input: object = {},
): Promise<Awaited<ReturnType<OperatorRequests[Name]>>> {
  type Answer = Awaited<ReturnType<OperatorRequests[Name]>>;
  const asked = await askService(settings.dataDir, name, input);
  if (asked) return asked.result as Answer;
  // Loaded only now: with a service up the answer comes without the service's own code.
  const { askInstallation } = await import("../main.ts");
  return await askInstallation(
    settings,
    async (requests) => (await requests[name](input as never)) as Answer,
  );
}
