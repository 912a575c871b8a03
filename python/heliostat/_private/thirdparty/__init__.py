"""``ray._private.thirdparty``: libraries that Ray carries, where they are installed."""
