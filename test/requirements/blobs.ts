import { section } from "./row.ts";

/** Where several services keep what is large: bundles and environments, by the hash of their bytes. */
export const BLOBS = {
  ...section("docs/config.md: Where blobs and volumes are", {
    "blobs.setting":
      "MILLRACE_BLOBS takes a whole path, file:///path, or s3://bucket/prefix with its options.",
    "blobs.plain": "What is in the place of a blob and no plain file, a pipe or a link, is not read.",
    "blobs.hash": "A blob is named by the SHA-256 of its bytes; one read whole is compared with it.",
    "blobs.whole":
      "A blob gets its name only when it is whole and on the disk; an upload that breaks off leaves none.",
    "blobs.private": "Blobs in a directory can be read by the service's own user alone.",
    "blobs.range": "A part of a blob can be read.",
    "blobs.at-once": "Several nodes may put and remove the same blob at the same time.",
    "blobs.young": "A blob that was put after the time its removal was decided by is not removed.",
    "blobs.shared": "Nodes prove at their start that they keep blobs in the same place, or say what to set.",
    "blobs.s3": "A bucket of an S3-compatible store keeps blobs as a directory does.",
    "blobs.s3.signature": "Requests are signed as in AWS's published examples of Signature Version 4.",
    "blobs.s3.style": "A bucket is named by the path or by the host, as path_style says.",
    "blobs.s3.parts": "What is large is sent in parts, each with its checksum; what fails leaves no parts.",
    "blobs.s3.condition":
      "A small blob is put on condition that there is none; a store without that takes it too.",
    "blobs.s3.tries":
      "A request that a store or the network fails for a moment is tried again; a read goes on.",
    "blobs.s3.refused": "What a store refuses is told with the store's own words, and is not tried again.",
    "blobs.s3.keys":
      "Keys come from the environment, a profile's file, STS, the container or the machine, in that order.",
    "blobs.s3.keys.identity":
      "A web identity token, as EKS gives a service account, is exchanged for keys of its role.",
  }),
  ...section("docs/decisions/0015-versions.md", {
    "blobs.versions":
      "On Postgres a version's bundle and packages are in blobs before its row names them; shared packages once.",
    "blobs.versions.alone": "A service alone, on SQLite, stores nothing twice.",
    "blobs.fetch":
      "A node without a version's files fetches them once, and they work from where they then are.",
    "blobs.fetch.gone":
      "Files that no blob holds whole are 503 app_not_ready with what to do; nothing is left of them.",
    "blobs.fetch.rebuild":
      "Packages for another Python or platform are installed again from the version's own inputs.",
    "blobs.fetch.hostile": "An archive that leads out of its folder, or holds too much, is refused.",
    "blobs.earlier": "Versions that are in no blob are stored when a service that has them starts.",
    "blobs.collected": "A blob that no version names is removed, a day after it was put at the earliest.",
  }),
  ...section("docs/decisions/0035-large-payloads.md", {
    "payloads.blob":
      "On Postgres what has more than 1 MiB lies in a blob that is there before a row names it.",
    "payloads.blob.nodes": "A large input, result and webhook body are the same through every node.",
    "payloads.blob.away":
      "While the blob store is away large runs are refused with 503; no end of a run is lost.",
    "payloads.blob.back":
      "Once the blob store answers again, dead connections to it keep large runs waiting for seconds only.",
    "payloads.blob.wait":
      "While the blob store is away queued runs with large inputs stay in the queue, in their order.",
    "payloads.blob.room":
      "While results cannot be stored, runs of their apps wait in the queue once 64 MiB are held.",
    "payloads.blob.place":
      "A blob store without the installation's mark, not mounted or another, counts as away, not as empty.",
    "payloads.blob.gone":
      "A run whose input is gone fails and says so; a gone result is 410 payload_not_kept.",
    "payloads.blob.killed": "A kill between a blob and its row leaves no run, and the blob is collected.",
    "payloads.blob.collected": "A payload's blob that no run names is removed, an hour after it was put.",
    "blobs.length": "A blob whose length is known is read no further: one of another length is damaged.",
    "blobs.fetch.room":
      "Files of a version that the disk has no room for are told so; nothing is left of them.",
    "blobs.environment.size": "An environment of more than 32 GiB is not copied: other nodes build it again.",
    "blobs.notes.left": "What a killed node left in the blob store to prove itself is removed after a day.",
  }),
  ...section("docs/config.md: Where blobs and volumes are", {
    "volumes.shared":
      "Volumes are below a directory of blobs, or where MILLRACE_VOLUMES says; else where they were.",
    "volumes.shared.refused":
      "A start that would leave volumes behind, or apart from other nodes', is refused with what to do.",
  }),
};
