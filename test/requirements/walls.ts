import { later, section } from "./row.ts";

/** What an app cannot do where MILLRACE_ISOLATION names a level. */
export const WALLS = {
  ...section("issue: Walls", {
    "walls.attacks":
      "A hostile app is stopped at the level that the table of attacks names for each of them, and at every higher one.",
    "walls.calls":
      "On every level all kinds of calls work, and replicas are forks that the service knows by the host's ids.",
    "walls.door":
      "Forged requests for connections get nothing, cost nobody else anything and leave nothing behind.",
    "walls.filter":
      "The filter of system calls refuses what it lists on x86-64 and arm64, and programs for other processors end.",
    "walls.no-code-outside":
      "No file, variable or package of an app runs outside its walls: not sitecustomize, PYTHONPATH or LD_PRELOAD.",
    "walls.old-kernel":
      "On kernels whose Landlock has no scopes, userns refuses unix sockets, which may be abstract.",
    "walls.places":
      "Nothing that holds the data directory may be read, and no link in an app's packages opens what belongs to others.",
    "walls.scratch": "Each template has a scratch folder of its own, which is removed with it.",
    "walls.service-death": "After kill -9 of the service nothing is left of an app, on every level.",
    "walls.storage":
      "A project's files are served alike whoever they belong to; no link, pipe, device or second name in there leads out.",
    "walls.storage-races":
      "An app that swaps folders for links while its storage is read, written, cleared or backed up gains nothing.",
    "walls.uid":
      "On uid each project has a user of its own, which it keeps over restarts and no other project gets.",
    "walls.uid-adoption":
      "Files that are there are given to their project's user, by a start that may be cut short, and nothing else is.",
    "walls.auto": later("isolation", "auto is the highest level that the host gives."),
    "walls.builds": later("isolation", "Builds and file runs live behind the same walls."),
    "walls.limits": later("isolation", "memory, cpu and the size of storage are limits that hold."),
    "walls.egress": later(
      "isolation",
      "The management listener and private addresses are out of an app's reach.",
    ),
  }),
};
