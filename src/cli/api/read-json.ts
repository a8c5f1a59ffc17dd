import { ShapeError, checked } from "../../shapes/shape.ts";
import type { Infer, Shape } from "../../shapes/shape.ts";
import { CliFailure } from "../failure.ts";

/** What a service has answered, known to have the shape; throws a sentence where it has not. */
export function readJson<S extends Shape>(shape: S, text: string, baseUrl: string): Infer<S> {
  try {
    return checked(shape, text === "" ? {} : JSON.parse(text));
  } catch (error) {
    if (error instanceof ShapeError) {
      throw new CliFailure(`${baseUrl} answered, but not as this release expects: ${error.fault}`, {
        hint: "use the same release as the service; millrace version shows yours",
      });
    }
    throw new CliFailure(`${baseUrl} answered with something that is not JSON`, {
      hint: "check the address: millrace whoami shows which one is used",
    });
  }
}
