import * as z from "zod/mini";

/** What the service says of itself in the dashboard's page. */
export const INSTALLATION = z.object({
  /** Where apps are called. */
  apiUrl: z.string(),
  /** The release. */
  version: z.string(),
  sendsMail: z.boolean(),
});
export type Installation = z.infer<typeof INSTALLATION>;
