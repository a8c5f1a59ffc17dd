import * as z from "zod/mini";

const CODES = z.object({
  device_code: z.string(),
  user_code: z.string(),
  verification_uri: z.string(),
  verification_uri_complete: z.string(),
  expires_in: z.int(),
  interval: z.int(),
});
export type DeviceCodes = z.infer<typeof CODES>;

/** The codes of a sign-in that a person approves. */
export const DEVICE_CODES = z.object({ deviceAuthResponsePayload: CODES });

/** What a device gets that was approved. */
export const DEVICE_TOKENS = z.object({ accessToken: z.string(), refreshToken: z.string() });

/** What a device gets for its refresh token. */
export const REFRESHED_TOKEN = z.object({ access_token: z.string() });

/** Either. */
export const TOKENS = z.union([DEVICE_TOKENS, REFRESHED_TOKEN]);

/** In OAuth's own form, which the clients of this exchange read. */
export const TOKEN_REFUSAL = z.object({
  error: z.enum(["authorization_pending", "expired_token", "invalid_grant"]),
});
