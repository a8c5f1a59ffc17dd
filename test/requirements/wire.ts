import { section } from "./row.ts";

/** What a process of an app can do to the service and to others: nothing. */
export const WIRE = {
  ...section("docs/wire.md: The order of frames", {
    "wire.fault.alone":
      "Whatever a replica, a template, a build or a file run sends ends that process alone, with a line in the log.",
    "wire.fault.line":
      "A line of a template that is not JSON, or too long, or out of turn, ends that template.",
    "wire.order":
      "Frames come in a legal order, checked as they arrive: one out of turn or beyond the credit ends its replica.",
    "wire.limits":
      "A frame's limit follows from its type and the app's limits, is checked at its head, and bounds the memory for it.",
    "wire.fields": "Every field that comes from a process of an app has a bound where it arrives.",
    "wire.fields.cut": "A message or a traceback that is too long is cut with a mark, and kept so.",
    "wire.fields.lists": "Lists of runs load nothing that they do not show.",
    "wire.result":
      "A result with an invalid status, or marked as JSON and not JSON, ends its run with 500, and its caller is told.",
    "wire.home":
      "Of many connections, those that show no ticket in time are closed; one with a ticket is accepted.",
    "wire.start": "A process that cannot be started fails its app, and nothing else.",
    "wire.answered": "No request is left without an answer, whatever happens to its run.",
  }),
  ...section("docs/logs.md: Limits", {
    "logs.sockets.share": "A project cannot take the log sockets that another project needs.",
    "logs.tags.share": "Made-up tags in what one app prints take nothing from the lines of another.",
    "logs.stdout.bounded":
      "What apps print is copied to the service's own output within bounds, and what is left out is told.",
    "logs.reading.share": "What is read of one project's processes has one turn among those of others.",
  }),
  ...section("docs/wire.md: Limits", {
    "show.hostile":
      "Against 600 hostile cases on every kind of connection, the service lives, within 64 MB, and answers every caller.",
  }),
};
