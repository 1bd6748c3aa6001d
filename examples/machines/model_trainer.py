"""A training job of SageMaker by ModelTrainer, that Tocsin watches and may stop.

python model_trainer.py --bucket BUCKET --image IMAGE --role arn:aws:iam::111122223333:role/x
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import boto3
from tocsin.migrate import training_job_settings

HERE = Path(__file__).parent


def start(trainer: Any, bucket: str, role: str, image: str, name: str) -> None:
    """Start the job. ``trainer`` is the module ``sagemaker.train`` of the SDK.

    The source folder holds train.py, the wheel, and the requirements that ``SourceFiles`` names.
    """
    run = f"s3://{bucket}/jobs/{name}"
    settings = training_job_settings(watch=HERE / "watch.yaml", run=run)
    for file, text in settings["RunFiles"].items():
        boto3.client("s3").put_object(Bucket=bucket, Key=f"jobs/{name}/{file}", Body=text)
    configs = trainer.configs
    trainer.ModelTrainer(
        base_job_name=name,
        training_image=image,
        role=role,
        source_code=configs.SourceCode(
            source_dir=str(HERE),
            requirements="requirements.txt",
            command=f"python train.py --out {run}",
        ),
        environment=settings["Environment"],
        tags=[configs.Tag(key=tag["Key"], value=tag["Value"]) for tag in settings["Tags"]],
    ).train(wait=False)


def main() -> None:
    import sagemaker.train
    import sagemaker.train.configs

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bucket", required=True, help="the deployment's capture bucket")
    parser.add_argument("--role", required=True)
    parser.add_argument("--image", required=True, help="a training image with Python")
    parser.add_argument("--name", default="first")
    args = parser.parse_args()
    start(sagemaker.train, args.bucket, args.role, args.image, args.name)


if __name__ == "__main__":
    main()
