// The AWS SDK for Go, version 2.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"fencepost.test/clients/report"
)

var (
	endpoint  = report.Endpoint
	region    = report.Region
	accessKey = report.AccessKey
	secretKey = report.SecretKey
	bucket    = report.Bucket
	prefix    = report.Prefix
)

// docs:begin
func client(token string) *s3.Client {
	session := ""
	if token != "" {
		session = "fence:" + token
	}
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(endpoint),
		Region:       region,
		Credentials:  credentials.NewStaticCredentialsProvider(accessKey, secretKey, session),
		UsePathStyle: true,
	})
}

// docs:end

// docs:begin header
func clientWithHeader(token string) *s3.Client {
	options := client("").Options()
	options.APIOptions = append(options.APIOptions, smithyhttp.AddHeaderValue("X-Fence-Token", token))
	return s3.New(options)
}

// docs:end

var (
	ctx = context.Background()
	api = chosen()
)

func chosen() *s3.Client {
	if report.InHeader {
		return clientWithHeader(report.Token)
	}
	return client(report.Token)
}

func key(name string) *string { return aws.String(prefix + "/" + name) }

func put(*report.Result) error {
	body, err := os.ReadFile(report.SmallFile)
	if err != nil {
		return err
	}
	_, err = api.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: key("put"), Body: bytes.NewReader(body)})
	return err
}

func get(result *report.Result) error {
	answer, err := api.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: key("source")})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	result.Body = string(body)
	return err
}

func list(result *report.Result) error {
	answer, err := api.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: key("listed/")})
	if err != nil {
		return err
	}
	for _, entry := range answer.Contents {
		result.Keys = append(result.Keys, *entry.Key)
	}
	return nil
}

func copyObject(*report.Result) error {
	source := aws.String(bucket + "/" + prefix + "/source")
	_, err := api.CopyObject(ctx, &s3.CopyObjectInput{Bucket: &bucket, Key: key("copy"), CopySource: source})
	return err
}

func multipart(*report.Result) error {
	file, err := os.Open(report.LargeFile)
	if err != nil {
		return err
	}
	defer file.Close()
	manager := transfermanager.New(api, func(options *transfermanager.Options) { options.PartSizeBytes = report.PartBytes })
	_, err = manager.UploadObject(ctx, &transfermanager.UploadObjectInput{Bucket: &bucket, Key: key("multipart"), Body: file})
	return err
}

func deleteBatch(result *report.Result) error {
	var objects []types.ObjectIdentifier
	for _, name := range report.Batch() {
		objects = append(objects, types.ObjectIdentifier{Key: aws.String(name)})
	}
	answer, err := api.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &bucket, Delete: &types.Delete{Objects: objects}})
	if err == nil && len(answer.Errors) > 0 {
		result.Code = *answer.Errors[0].Code
		err = fmt.Errorf("%d of %d keys: %s", len(answer.Errors), len(objects), result.Code)
	}
	return err
}

func presign(result *report.Result) error {
	signer := s3.NewPresignClient(api, s3.WithPresignExpires(time.Minute))
	put, err := signer.PresignPutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: key("presigned")})
	if err != nil {
		return err
	}
	get, err := signer.PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: key("source")})
	if err != nil {
		return err
	}
	result.Links = map[string]string{"PUT": put.URL, "GET": get.URL}
	return nil
}

func refusal(err error, result *report.Result) {
	var refused smithy.APIError
	if errors.As(err, &refused) {
		result.Code = refused.ErrorCode()
	}
	var response *http.ResponseError
	if errors.As(err, &response) {
		result.Status = response.HTTPStatusCode()
	}
}

func main() {
	report.Run(map[string]func(*report.Result) error{
		"put": put, "get": get, "list": list, "copy": copyObject, "multipart": multipart,
		"delete-batch": deleteBatch, "presign": presign,
	}, refusal)
}
