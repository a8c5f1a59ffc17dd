import type { SecretMap } from "../../model/app.ts";
import type { HiddenPayloads } from "../../replicas/pool.ts";

/** What the app's secrets keep out of the records of its calls: the names that the hosted original reads. */
export function hiddenPayloads(secrets: SecretMap): HiddenPayloads {
  return {
    input: secrets["DISABLE_REQUEST_LOGS"] === "true",
    result: secrets["DISABLE_RESPONSE_LOGS"] === "true",
  };
}
