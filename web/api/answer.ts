import { checked, errorIn, ShapeError } from "../../src/shapes/shape.ts";
import type { ErrorBody, Infer, Shape } from "../../src/shapes/shape.ts";

/** An answer that is no success, with the service's own words. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: readonly unknown[];

  constructor(status: number, { message, code, details }: ErrorBody) {
    super(message ?? `The service answered ${status}.`);
    this.name = "ApiError";
    this.status = status;
    this.code = code ?? "unknown";
    this.details = details ?? [];
  }

  static async of(response: Response): Promise<ApiError> {
    return new ApiError(response.status, errorIn(await response.json().catch(() => null)));
  }
}

/** The JSON of a good answer, in the shape that it should have; throws an ApiError for any other. */
export async function readAnswer<S extends Shape>(shape: S, response: Response): Promise<Infer<S>> {
  await requireGood(response);
  return checked(shape, await response.json());
}

/** Throws an ApiError for any answer that is not a good one. */
export async function requireGood(response: Response): Promise<void> {
  if (!response.ok) throw await ApiError.of(response);
}

/** What to tell a person of anything that was thrown. */
export function messageOf(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  if (error instanceof ShapeError) {
    return `The service sent an unexpected response (${error.fault}). Reload the page.`;
  }
  if (error instanceof TypeError) return "The service cannot be reached.";
  return error instanceof Error ? error.message : String(error);
}
