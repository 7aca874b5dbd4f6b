# One binary and what it is linked to. Keys and passwords come with the environment, never with the image.

FROM rust:1.94-slim-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY migrations migrations
COPY crates crates
COPY src src
COPY tools tools
COPY console/dist console/dist
COPY supply/threadline.cdx.json supply/threadline.cdx.json
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --bin threadline \
    && install -D target/release/threadline /out/threadline \
    && mkdir -m 700 /out/data

# glibc, libgcc and certificates; no shell, no package manager.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /out/threadline /usr/local/bin/threadline
# For the embedded store; with THREADLINE_STORE nothing is written here.
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
ENV THREADLINE_LISTEN=0.0.0.0:7420 \
    THREADLINE_DATA=/data \
    THREADLINE_LOG_FORMAT=json
EXPOSE 7420
VOLUME /data
# Alive, and no more: who starts unhealthy containers anew must not do so because a database is away.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 CMD ["/usr/local/bin/threadline", "health", "--live"]
ENTRYPOINT ["/usr/local/bin/threadline"]
CMD ["serve"]
