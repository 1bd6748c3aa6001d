"""Rules of Amazon SageMaker Debugger that only the profile ``sagemaker`` watches, or none."""
