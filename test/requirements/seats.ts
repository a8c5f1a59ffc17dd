import { section } from "./row.ts";

/** Replicas on other machines: seats elsewhere. */
export const SEATS = {
  ...section("issue: Replicas on Kubernetes and on Ray", {
    "seats.same":
      "An app in a seat elsewhere is called, streamed, run async, cancelled and logged as everywhere.",
    "seats.relay":
      "What passes through a seat is as large as everywhere, and is held back in both directions.",
  }),
};
