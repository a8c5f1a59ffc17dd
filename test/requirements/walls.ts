import { section } from "./row.ts";

/** What an app cannot do where MILLRACE_ISOLATION names a level. */
export const WALLS = {
  ...section("docs/security.md: Layers", {
    "walls.attacks":
      "A hostile app is stopped at the level that the table of attacks names for each of them, and at every higher one.",
    "walls.calls":
      "On every level all kinds of calls work, and replicas are forks that the service knows by the host's ids.",
    "walls.door": "Forged requests for connections get nothing, delay no other app and leave nothing behind.",
    "walls.filter":
      "The filter of system calls refuses what it lists on x86-64 and arm64, and programs for other processors end.",
    "walls.hosts":
      "On hosts that lack namespaces, Landlock or capabilities, as root and as nobody, the claimed level is the real one.",
    "walls.neighbours":
      "Beside a memory bomb, a fork bomb, a disk filler and a log flooder every call of a good app succeeds.",
    "walls.no-code-outside":
      "No file, variable or package of an app runs outside its walls: not sitecustomize, PYTHONPATH or LD_PRELOAD.",
    "walls.old-kernel":
      "Where Landlock has no scopes, unix sockets of apps on userns and uid work, and reach no other program's.",
    "walls.cuda":
      "On every level, with every version of Landlock, the system calls succeed that CUDA makes when it starts.",
    "gpu.walls":
      "On a machine with an NVIDIA GPU, every level lets apps use it in every way, with every version of Landlock.",
    "gpu.apps":
      "With default settings apps use a GPU at their import, first in a forked replica, and as servers.",
    "walls.thread-names":
      "Where an app may not write below /proc, its processes can still name their threads, and open nothing else there.",
    "walls.unix-sockets.apart":
      "Where neither namespaces nor Landlock keep the unix sockets of others from an app, the keeper does.",
    "walls.unspecified":
      "An unspecified address is judged as the one that the kernel connects to, whatever the socket is bound to.",
    "walls.hidden":
      "A process that hides what it holds takes no connection from other apps, and exposes none of their servers.",
    "walls.keeper":
      "An app cannot make its keeper wait, and a signal does not make a call fail that the keeper has carried out.",
    "walls.places":
      "Nothing that holds the data directory may be read, and no link in an app's packages opens what belongs to others.",
    "walls.scratch":
      "Each template has a scratch folder of its own, which is removed with it; a stop leaves none behind.",
    "walls.service-death": "After kill -9 of the service nothing is left of an app, on every level.",
    "walls.auto":
      "auto is the strongest level that the host gives; where it gives none the service says so, and why.",
    "walls.interpreter": "A level counts only if the Python of apps runs behind it.",
    "walls.interpreters":
      "On every level servers, commands and files start on the Python that the app names, or learn what hides it.",
    "walls.interpreters.linked":
      "Of what an environment links to, only a Python that the service looks for is shown to its app.",
    "walls.builds":
      "Build steps live behind the same walls, and write nothing but their own build and their project's cache.",
    "walls.files":
      "Files that run once live behind the same walls, with their folder, their storage and a scratch folder.",
    "walls.working-folder":
      "On userns what an app writes to its working folder is its own: the bundle stays as deployed.",
    "walls.processes":
      "Locks, queues and shared memory of multiprocessing work on every level, terminals on userns.",
    "walls.names": "On uid an app's user has a name and a group, which programs ask for; /var/tmp is there.",
    "walls.unix-sockets":
      "unix_sockets = true allows unix sockets on every level, and the control socket still wants a key.",
    "builds.own-environment": "No build, cache or package of one project changes what another project gets.",
    "builds.own-cache": "What installers fetch and build is kept in a cache of the project's own.",
    "builds.no-service-runs":
      "The service writes through no link that a build leaves, and runs and obeys nothing that it has written.",
    "builds.bounded-reading":
      "However much a bundle or its commands hold out to the service to be read, it reads only so much of it.",
    "walls.removal":
      "What apps and builds have filled is removed whatever it holds, and nothing else is, even while they are at work.",
    "walls.storage":
      "A project's files are served alike whoever owns them; no link, pipe, device or swapped folder in there leads out.",
    "walls.uid":
      "On uid each project has a user of its own, which it keeps over restarts and no other project gets.",
    "walls.uid-adoption":
      "Files that are there are given to their project's user, by a start that may be cut short, and nothing else is.",
    "walls.uid-deployed":
      "An app that was deployed on another level reads and writes its files as before, with its packages.",
    "walls.limits.memory":
      "A replica that uses more memory than its app names ends, its run is 502 out_of_memory, and no neighbour notices.",
    "walls.limits.memory.unmapped":
      "Memory that no process has mapped counts: files in /dev/shm and in memory, System V segments, page tables.",
    "walls.limits.memory.start":
      "An app whose import uses more memory than it names says so at its first call.",
    "walls.limits.cpu": "A replica gets as much processor time as its app names, and no more.",
    "walls.limits.processes": "A replica can have 4,096 processes and threads at most.",
    "walls.limits.disk":
      "An app whose temporary files or whose project's storage take too much is ended, and says why.",
    "walls.limits.once":
      "Files that run once have the limits of their app; a step of a build may use most of the memory, never all.",
    "walls.limits.inside": "No app behind landlock or userns can leave its group or change its limits.",
    "walls.limits.groups":
      "Control groups of either version go with the processes in them; a killed service's go at the next start.",
    "walls.limits.told":
      "doctor and /readyz?verbose say of each limit by what it is enforced, or that it is not.",
    "walls.ports": "Where connections are judged, an app takes no port that is kept for servers but its own.",
    "walls.nodes":
      "An app reaches the management API of no node of the installation, also of one that comes while it runs.",
    "walls.connects":
      "No app gets a TCP connection to the management API, metadata services or other apps, whatever its threads do.",
    "walls.connects.ordinary":
      "Permitted connections of every kind work, and one that is not answered delays no other.",
    "walls.egress":
      'With network = "egress" an app reaches no private address but those a setting allows, and name servers.',
    "walls.network.unenforced":
      'Where connections cannot be judged, network = "egress" is refused or warned of, as a setting says, and doctor tells.',
  }),
  ...section("docs/security.md: GPUs", {
    "gpu.enforced":
      "From landlock on, an app can open the device files of the GPUs that it was granted, and without a grant of none.",
    "gpu.attacks": "No way that the table of attacks lists leads an app to a GPU of others.",
    "gpu.changed":
      "On userns and uid the agent opens and closes GPUs of a running seat without rights on the host, and the app cannot.",
    "gpu.forks":
      "On userns and uid each fork can open its own GPUs of a seat, whose variables it has, and can still move files.",
  }),
};
